"""Addresses: where a node's socket and its REST interface are, found from the one URL that a program knows."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit, urlunsplit


def socket_url(url: str) -> str:
    """Make the address of the socket: `https://host/prefix` becomes `wss://host/prefix/v1/ws`."""
    parts = _parts(url)
    return urlunsplit((_SOCKET[parts.scheme], parts.netloc, parts.path.rstrip("/") + "/v1/ws", "", ""))


def rest_url(url: str) -> str:
    """Make the address that precedes `/v1/...` in a REST request."""
    parts = _parts(url)
    return urlunsplit((_REST[parts.scheme], parts.netloc, parts.path, "", ""))


def shown_url(url: str) -> str:
    """Make the URL as it may stand in a log: without a name and a password before the host."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


_SOCKET = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_REST = {"http": "http", "https": "https", "ws": "http", "wss": "https"}


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in _SOCKET and parts.hostname and parts.port != 0  # a port out of range raises
    except (ValueError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        shown = str(url).rpartition("@")[2]  # what precedes the host may be a password
        raise ValueError(f"not the URL of a node: {shown!r} (http://host:port or https://host)")
    return parts
