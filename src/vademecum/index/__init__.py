"""index.sqlite: sources, chunks and their words. Derived from Markdown; delete it at will."""
