"""The simulator: whole nodes on a virtual clock, with a seed for every choice."""
