"""Bounds of the requests to AWS, each with its unit and its reason."""

from __future__ import annotations

IDLE_S = 20.0  # a connection unused for this long may be closed by the other side any moment
CREDENTIALS_S = 5.0  # one request for credentials
