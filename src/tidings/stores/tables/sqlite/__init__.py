"""The tables in one SQLite file."""
