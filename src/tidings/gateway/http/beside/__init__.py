"""Routes of things that people put beside messages."""
