"""Sending: an outbox that keeps the order of sends over reconnects."""
