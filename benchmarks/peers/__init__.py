"""Other libraries that do the same job, measured side by side: `python -m benchmarks.peers`."""
