"""Connections of the load generator, and the tally of what they saw.

A WebSocket that says `connect` and waits for the hello, and a keep-alive HTTP/1.1 connection with one request at a
time. Both decode just enough of an answer to know what it answers and whether it is right; anything wrong
fails the tally.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

OPENING_AT_ONCE = 50
OPEN_S = 60.0


class Message(msgspec.Struct, gc=False):
    message_id: str | None = None
    seq: int = 0


class Answer(msgspec.Struct, gc=False):
    """As much of an answer or event as the load looks at."""

    type: str = "ok"
    id: int | None = None
    message: Message | str | None = None
    messages: list[msgspec.Raw] | None = None
    conversations: list[msgspec.Raw] | None = None
    complete: bool = False  # of `resumed`


decode = msgspec.json.Decoder(Answer).decode


class Tally:
    """What happened since the window was opened."""

    def __init__(self) -> None:
        self.units = 0
        self.latencies_s: list[float] = []
        self.late_s: list[float] = []
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def clear(self) -> None:
        self.units = 0
        self.latencies_s.clear()
        self.late_s.clear()

    def done(self, since_s: float) -> None:
        self.units += 1
        self.latencies_s.append(time.perf_counter() - since_s)

    def fail(self, why: str) -> None:
        if not self.failed.done():
            self.failed.set_exception(RuntimeError(why))


class Socket(WSListener):
    """One WebSocket; `on_frame` sees everything after the hello."""

    def __init__(self, tally: Tally, on_frame: Callable[[Answer], None]) -> None:
        self.hello: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tally = tally
        self._on_frame = on_frame
        self._transport: WSTransport | None = None

    def send(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.send(WSMsgType.TEXT, frame)

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        payload = frame.get_payload_as_bytes()
        if frame.msg_type != WSMsgType.TEXT:
            self._tally.fail(f"an unexpected frame: {frame.msg_type} {payload!r}")
            return
        answer = decode(payload)
        if answer.type == "error":
            self._tally.fail(payload.decode())
        elif answer.type == "hello":
            self.hello.set_result(None)
        else:
            self._on_frame(answer)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._tally.fail("the server closed a connection")


async def connect(
    port: int, token: str, tally: Tally, on_frame: Callable[[Answer], None], resume: dict[str, int] | None = None
) -> Socket:
    """Returns after the hello."""
    socket = Socket(tally, on_frame)
    await ws_connect(lambda: socket, f"ws://127.0.0.1:{port}/v1/ws")
    socket.send(msgspec.json.encode({"id": 0, "type": "connect", "token": token, "resume": resume or {}}))
    await asyncio.wait((socket.hello, tally.failed), timeout=OPEN_S, return_when=asyncio.FIRST_COMPLETED)
    if not socket.hello.done():
        tally.fail("no hello")
        await tally.failed
    return socket


class Http(asyncio.Protocol):
    """One keep-alive HTTP/1.1 connection, one request at a time."""

    def __init__(self, tally: Tally, on_body: Callable[[Answer], None]) -> None:
        self._tally = tally
        self._on_body = on_body
        self._received = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is one without saying so

    def send(self, request: bytes) -> None:
        assert self._transport is not None
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if len(body) < int(fields[b"content-length"]):
            return
        self._received = b""
        if not head.startswith(b"HTTP/1.1 200"):
            self._tally.fail((head + b" " + body).decode())
            return
        self._on_body(decode(body))

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.fail("the server closed a connection")


async def in_turn(openings: Sequence[Callable[[], Awaitable[Any]]]) -> None:
    """Open all, a few at a time."""
    for at in range(0, len(openings), OPENING_AT_ONCE):
        await asyncio.gather(*(opening() for opening in openings[at : at + OPENING_AT_ONCE]))
