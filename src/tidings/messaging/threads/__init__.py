"""Threads: replies to one message, with counts of their own for everybody who follows them."""
