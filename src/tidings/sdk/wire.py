"""Frames as bytes: what the client says is encoded, what the server says becomes an answer or an event.

An answer is decoded by whoever asked, with the struct it expects. An event of a kind that this client does not know is
None: the server may be newer. link.py brings the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from tidings.bounds import FRAME_BYTES_MAX
from tidings.errors import TooLarge
from tidings.gateway.protocol import Frame, decode_frame, refusal_of
from tidings.sdk.events import ServerEvent
from tidings.sdk.forms import check_types
from tidings.sdk.refusals import Refusal, problem_of

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_SOCKET = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_REST = {"http": "http", "https": "https", "ws": "http", "wss": "https"}


class Peek(msgspec.Struct, gc=False):
    """As much of a frame as tells where it belongs."""

    type: str
    id: int | None = None


_peek = msgspec.json.Decoder(Peek).decode
_event: Callable[[bytes], ServerEvent] = msgspec.json.Decoder(ServerEvent).decode


def socket_url(url: str) -> str:
    """`https://host/prefix` is wss://host/prefix/v1/ws."""
    parts = _parts(url)
    return urlunsplit((_SOCKET[parts.scheme], parts.netloc, parts.path.rstrip("/") + "/v1/ws", "", ""))


def rest_url(url: str) -> str:
    """What `/v1/...` is put behind."""
    parts = _parts(url)
    return urlunsplit((_REST[parts.scheme], parts.netloc, parts.path, "", ""))


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in _SOCKET and parts.hostname and parts.port != 0  # a port out of range raises
    except (ValueError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise ValueError(f"not the URL of a node: {url!r} (http://host:port or https://host)")
    return parts


def encode(frame: Frame) -> bytes:
    """The frame's bytes. One that is too long would close the socket: it is refused here."""
    try:
        raw = _encode(frame)
    except UnicodeEncodeError as problem:
        raise refusal_of(problem) from None
    if len(raw) > FRAME_BYTES_MAX:
        raise TooLarge(f"a frame has {FRAME_BYTES_MAX} bytes at most")
    return raw


def check(frame: Frame) -> None:
    """What the server would refuse for good is refused here, where the mistake was made, and nothing is sent."""
    check_types(frame)
    decode_frame(encode(frame).decode())


def peek(raw: bytes) -> Peek | None:
    try:
        return _peek(raw)
    except msgspec.DecodeError:
        return None


def event_of(raw: bytes) -> ServerEvent | None:
    try:
        return _event(raw)
    except msgspec.DecodeError:
        return None


def answer_of(raw: bytes, kind: type[T]) -> T:
    """The answer's fields, or the Problem that it is."""
    found = peek(raw)
    if found is not None and found.type == "error":
        raise problem_of(msgspec.json.decode(raw, type=Refusal))
    return msgspec.json.decode(raw, type=kind)
