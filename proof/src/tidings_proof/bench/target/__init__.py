"""Targets: a benchmark runs against a node of its own, a given URL, or the textbook server."""
