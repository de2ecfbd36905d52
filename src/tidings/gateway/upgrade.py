"""May this HTTP request become a WebSocket? Decided before anything is allocated for it, without I/O.

The Origin must be ours or on the list, compared exactly; a request without one does not come from a browser's page and
is allowed, because no cookie is ever read. What is handed on to picows is a request of our own making: browsers may
say `Connection: keep-alive, Upgrade`, which it would refuse. server.py is the caller.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import NamedTuple

WS_PATH = b"/v1/ws"
Headers = Iterable[tuple[bytes, bytes]]


class Refusal(NamedTuple):
    status: int
    code: str
    message: str


def refusal_of_upgrade(method: str, target: bytes, headers: Headers, allowed_origins: frozenset[str]) -> Refusal | None:
    """Why not; None: go on."""
    path, _, query = target.partition(b"?")
    named = dict(headers)
    if path != WS_PATH:
        return Refusal(404, "not_found", "the WebSocket is at /v1/ws")
    if method != "GET":
        return Refusal(400, "bad_request", "an upgrade is a GET")
    if not is_origin_allowed(named.get(b"origin"), named.get(b"host"), allowed_origins):
        return Refusal(403, "forbidden", "this origin may not connect")
    if b"token=" in query:
        return Refusal(400, "bad_request", "a token belongs into the connect frame: URLs end up in logs")
    return _refusal_of_handshake(named)


def _refusal_of_handshake(named: dict[bytes, bytes]) -> Refusal | None:
    if named.get(b"sec-websocket-version") != b"13":
        return Refusal(426, "bad_request", "WebSocket version 13 only")
    if b"sec-websocket-protocol" in named:
        return Refusal(400, "bad_request", "no subprotocol is spoken here")
    if not _is_key(named.get(b"sec-websocket-key", b"")):
        return Refusal(400, "bad_request", "no valid Sec-WebSocket-Key")
    return None


def is_origin_allowed(origin: bytes | None, host: bytes | None, allowed: frozenset[str]) -> bool:
    """Absent, on the list (`*`: any), or the same host and port as the request's own."""
    if origin is None or "*" in allowed:
        return True
    text = origin.decode("latin-1")
    if text in allowed:
        return True
    scheme, separator, authority = text.partition("://")
    is_web = separator == "://" and scheme in ("http", "https")
    return is_web and host is not None and authority == host.decode("latin-1")


def handshake_of(headers: Headers) -> bytes:
    """The request as picows wants it."""
    named = dict(headers)
    return (
        b"GET /v1/ws HTTP/1.1\r\nHost: tidings\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n\r\n" % named[b"sec-websocket-key"]
    )


def _is_key(key: bytes) -> bool:
    try:
        return len(key) == 24 and len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        return False
