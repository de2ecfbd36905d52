"""The command line: one module a verb, and `main` that finds it."""
