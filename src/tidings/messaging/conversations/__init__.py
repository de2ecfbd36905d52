"""Conversations: making, renaming and deleting them, and changing their members."""
