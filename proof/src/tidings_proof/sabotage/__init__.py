"""Planted bugs: each must be found by the judge."""
