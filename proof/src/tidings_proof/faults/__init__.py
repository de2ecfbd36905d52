"""Faults: what goes wrong during a run, and when."""
