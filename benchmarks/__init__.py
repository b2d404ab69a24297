"""Benchmarks, one command each: `python -m benchmarks.streaming` and so on; see README.md here."""
