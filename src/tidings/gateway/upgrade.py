"""Upgrade: decides whether an HTTP request may become a WebSocket, before anything is allocated for it, without I/O.

The Origin must be ours or on the list, compared exactly. A request without an Origin does not come from a browser's
page. Such a request is allowed, because no cookie is ever read. picows gets a request of our own making, because it
would refuse the `Connection: keep-alive, Upgrade` of some browsers.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import NamedTuple

WS_PATH = b"/v1/ws"
Headers = Iterable[tuple[bytes, bytes]]


class Refusal(NamedTuple):
    status: int
    code: str
    message: str


LOOPBACK = "loopback"  # in a list of origins; no origin has this name
_LOOPBACK = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")


def refusal_of_upgrade(method: str, target: bytes, headers: Headers, allowed_origins: frozenset[str]) -> Refusal | None:
    """The reason to refuse the upgrade; None: go on."""
    path, _, query = target.partition(b"?")
    named = dict(headers)
    if path != WS_PATH:
        return Refusal(404, "not_found", "the WebSocket is at /v1/ws")
    if method != "GET":
        return Refusal(400, "bad_request", "an upgrade must be a GET")
    if not is_origin_allowed(named.get(b"origin"), named.get(b"host"), allowed_origins):
        return Refusal(403, "forbidden", "this origin may not connect: add it to `allowed_origins`")
    if b"token=" in query:
        return Refusal(400, "bad_request", "put the token into the `connect` frame: URLs end up in logs")
    return _refusal_of_handshake(named)


def _refusal_of_handshake(named: dict[bytes, bytes]) -> Refusal | None:
    if named.get(b"sec-websocket-version") != b"13":
        return Refusal(426, "bad_request", "`Sec-WebSocket-Version` must be 13")
    if b"sec-websocket-protocol" in named:
        return Refusal(400, "bad_request", "`Sec-WebSocket-Protocol` must be absent: there is no subprotocol")
    if not _is_key(named.get(b"sec-websocket-key", b"")):
        return Refusal(400, "bad_request", "`Sec-WebSocket-Key` must be 16 bytes in base64")
    return None


def is_origin_allowed(origin: bytes | None, host: bytes | None, allowed: frozenset[str]) -> bool:
    """Whether the origin is absent, on the list, or the host and port of the request itself."""
    if origin is None or is_origin_listed(origin, allowed):
        return True
    scheme, separator, authority = origin.decode("latin-1").partition("://")
    is_web = separator == "://" and scheme in ("http", "https")
    return is_web and host is not None and authority == host.decode("latin-1")


def is_origin_listed(origin: bytes, allowed: frozenset[str]) -> bool:
    """Whether the list names the origin. `*` names every origin, LOOPBACK every page of this machine."""
    text = origin.decode("latin-1")
    return text in allowed or "*" in allowed or (LOOPBACK in allowed and _LOOPBACK.fullmatch(text) is not None)


def handshake_of(headers: Headers) -> bytes:
    """The request in the form that picows takes."""
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
