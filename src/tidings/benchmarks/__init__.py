"""Load on a server, and what it cost: the generator, its loads, and the trials of `tidings bench`.

The repository's own benchmarks (bench/, one file per claim) stand on the same generator, so there is one way to make
load and one way to count.
"""
