"""The command line: one module for each noun, and `main`, which finds the verb."""
