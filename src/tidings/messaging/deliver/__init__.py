"""Delivery: every entry reaches every connected device of a member once, in order, on every node."""
