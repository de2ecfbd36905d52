"""Frames of the server become values: events, answers, and the Problem that a refusal is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from tidings_client.errors import Refusal, problem_of
from tidings_client.values import ServerEvent

T = TypeVar("T")


class Peek(msgspec.Struct, gc=False):
    """The fields of a frame that say where it belongs."""

    type: str
    id: int | None = None


_peek = msgspec.json.Decoder(Peek).decode
_event: Callable[[bytes], ServerEvent] = msgspec.json.Decoder(ServerEvent).decode


def peek(raw: bytes) -> Peek | None:
    try:
        return _peek(raw)
    except msgspec.DecodeError:
        return None


def event_of(raw: bytes) -> ServerEvent | None:
    """Decode an event; None for a kind of event that this client does not know."""
    try:
        return _event(raw)
    except msgspec.DecodeError:
        return None


def answer_of(raw: bytes, kind: type[T]) -> T:
    """Decode an answer as `kind`, or raise the Problem that the answer is."""
    found = peek(raw)
    if found is not None and found.type == "error":
        raise problem_of(msgspec.json.decode(raw, type=Refusal))
    return msgspec.json.decode(raw, type=kind)
