"""Messages and time: they expire, they are sent later, and old ones go."""
