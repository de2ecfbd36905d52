"""Trials: what `tidings bench NAME` runs."""
