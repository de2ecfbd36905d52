"""Cursors: a place in a list, as a text that a client hands back unchanged.

A text that we did not make is noticed. It is no secret, so a place may still be one that somebody made up.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec

from tidings.base64url import from_base64url, to_base64url
from tidings.errors import BadCursor

T = TypeVar("T")
_SEAL_BYTES = 6


def cursor_of(place: Any) -> str | None:
    """The cursor of a place. None: the list ends here."""
    if place is None:
        return None
    raw = msgspec.json.encode(place)
    seal = hashlib.sha256(raw).digest()[:_SEAL_BYTES]
    return to_base64url(seal + raw)


def place_at(cursor: str, kind: type[T]) -> T:
    """The place of a cursor. Raises BadCursor."""
    try:
        raw = from_base64url(cursor)[_SEAL_BYTES:]
        place = msgspec.json.decode(raw, type=kind)
    except (ValueError, msgspec.DecodeError):
        raise BadCursor() from None
    if cursor_of(place) != cursor:
        raise BadCursor()
    return place
