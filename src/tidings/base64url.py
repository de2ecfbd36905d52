"""Base64url: bytes as a text for URLs, headers and JSON, without padding (RFC 4648, section 5)."""

from __future__ import annotations

import base64


def to_base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """The bytes of a text, with its padding or without. Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
