"""Data that comes from other products."""
