"""Limits: an exact sliding window a user and class, exceptions to it, and the order of sends that were refused."""
