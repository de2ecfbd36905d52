"""Moderation: the rules of a conversation, and the ways into it and out of it."""
