"""The connection: one socket that reconnects by itself, and its tokens."""
