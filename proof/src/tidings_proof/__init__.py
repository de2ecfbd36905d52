"""Proof that Tidings keeps its promises: torture, simulation and benchmarks. Never part of the server."""

__version__ = "0.1.0"
