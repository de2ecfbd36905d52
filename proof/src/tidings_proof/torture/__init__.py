"""Proof under attack: clients that remember everything, faults from a seed, a checker that holds the promises to it.

`tidings torture` runs it (cli_torture.py); docs/inside/reliability.md says what is promised and how to read a verdict.
"""
