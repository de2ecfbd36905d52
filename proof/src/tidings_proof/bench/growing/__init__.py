"""Benchmarks of what an installation grows into: other tables, more cores, very large conversations."""
