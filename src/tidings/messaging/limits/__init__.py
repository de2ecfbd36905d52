"""Rate limits: an exact sliding window a user and class, and exceptions to it."""
