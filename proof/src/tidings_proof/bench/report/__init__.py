"""Figures, tables and plots of a run."""
