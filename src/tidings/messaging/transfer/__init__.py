"""Data that comes from other products, and data that leaves."""
