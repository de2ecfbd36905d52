"""Benchmarks with targets: one file for each claim."""
