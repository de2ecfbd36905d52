"""Search on SQLite: the index, in a file of its own."""
