"""The host's tools that have to do with memory; its other tools are its own."""
