"""Presence and typing: what the members who watch a conversation see of each other."""
