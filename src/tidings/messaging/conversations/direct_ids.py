"""Ids that are made without a lookup: one for each pair of users, and one for each name that a client chose."""

from __future__ import annotations

import hashlib
import hmac


def direct_id(one: str, other: str, secret: str) -> str:
    """The id of two users' direct conversation: the same for both, without a lookup.

    It is keyed with the secret of the store, so nobody outside can compute it and ask whether the two talk.
    """
    small, large = sorted((one, other))
    return "d-" + hmac.new(secret.encode(), f"{small}\0{large}".encode(), hashlib.sha256).hexdigest()[:32]


def client_made_id(user_id: str, client_id: str, secret: str, life: int = 0) -> str:
    """The id of the conversation that a user created under this client_id. It is keyed for the same reason.

    `life`: how many conversations of this name were deleted. Each has an id of its own."""
    name = f"{user_id}\0client\0{client_id}" + (f"\0{life}" if life else "")
    return "c-" + hmac.new(secret.encode(), name.encode(), hashlib.sha256).hexdigest()[:32]


def unkeyed_direct_id(one: str, other: str) -> str:
    """The id that a direct conversation got before ids were keyed. It stays the id of that conversation."""
    small, large = sorted((one, other))
    return "d-" + hashlib.sha256(f"{small}\0{large}".encode()).hexdigest()[:32]
