"""Benchmarks: one file per claim. See bench/README.md."""
