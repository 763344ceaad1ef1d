"""vectors.sqlite: unit vectors by content hash, one table ("lane") per model. Costs calls, not data."""
