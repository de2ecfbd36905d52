"""Limits: an exact sliding window for each user and class, exceptions to it, and the order of refused sends."""
