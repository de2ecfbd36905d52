"""Dialects: how the generator talks to a server. The loads are the same for every dialect.

A dialect signs a connection in, packs messages and requests, and tells what it hears as answers of Tidings: `ok` with
the number of the message, and `message.new`. This module has the interface and our own dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from tidings_proof.bench.load.connections import Answer, Tally, connect

NUMBER = b"{#}"  # in a packed message: its number, counted from 1 on each connection

OnFrame = Callable[[Answer], None]


class Link(Protocol):
    """A connection that is signed in."""

    def send(self, frame: bytes) -> None: ...

    async def leave(self) -> None: ...


class Dialect(Protocol):
    async def connect(self, url: str, token: str, tally: Tally, on_frame: OnFrame) -> Link:
        """Return a connection that the server has greeted."""
        ...

    def message(self, conversation_id: str, prefix: str, text: str) -> bytes:
        """Pack a message whose id is the prefix with NUMBER."""
        ...

    def request(self, request: str) -> bytes:
        """Pack a request of a reader."""
        ...


class Tidings:
    async def connect(self, url: str, token: str, tally: Tally, on_frame: OnFrame) -> Link:
        return await connect(url, token, tally, on_frame)

    def message(self, conversation_id: str, prefix: str, text: str) -> bytes:
        frame = {"type": "message.send", "conversation_id": conversation_id, "text": text}
        return b'{"id":%s,"message_id":"%s%s",' % (NUMBER, prefix.encode(), NUMBER) + msgspec.json.encode(frame)[1:]

    def request(self, request: str) -> bytes:
        return b'{"id":1,' + request.encode()[1:]


TIDINGS = Tidings()
