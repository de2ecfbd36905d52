"""Routes of messages and time."""
