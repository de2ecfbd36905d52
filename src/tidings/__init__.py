"""Tidings: a messaging backend that a team runs itself.

The folders are the way of a message: gateway (a socket becomes a command), messaging (what it means),
routing (where the recipients are), stores (what remains). Imports go in that direction only.
"""

__version__ = "0.1.0"
