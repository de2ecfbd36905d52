"""Things that people put beside messages: reactions."""
