"""One reader for each system that memories come from."""
