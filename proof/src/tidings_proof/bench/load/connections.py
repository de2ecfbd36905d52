"""Connections of the load generator, and the tally of what they saw.

A WebSocket that says `connect` and waits for the hello, and a keep-alive HTTP/1.1 connection with one request at a
time. Both decode just enough of an answer to know what it answers and whether it is right; anything wrong
fails the tally.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from tidings.clock import Clock

OPENING_AT_ONCE = 50
OPEN_S = 60.0
REFUSALS = ("rate_limited", "held")  # of the limiter, and of what came after a refused one


class Message(msgspec.Struct, gc=False):
    message_id: str | None = None
    seq: int = 0


class Answer(msgspec.Struct, gc=False):
    """As much of an answer or event as the load looks at."""

    type: str = "ok"
    id: int | None = None
    code: str | None = None  # of `error`
    message: Message | str | None = None
    messages: list[msgspec.Raw] | None = None
    conversations: list[msgspec.Raw] | None = None
    complete: bool = False  # of `resumed`
    offset: int = 0  # of `message.appended`
    text: str = ""


decode = msgspec.json.Decoder(Answer).decode


class Tally:
    """Tally: counts what happened since the window was opened."""

    def __init__(self) -> None:
        self.now_s = Clock().monotonic_s
        self.units = 0
        self.refused = 0
        self.latencies_s: list[float] = []
        self.late_s: list[float] = []
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def clear(self) -> None:
        self.units = self.refused = 0
        self.latencies_s.clear()
        self.late_s.clear()

    def done(self, since_s: float) -> None:
        self.units += 1
        self.latencies_s.append(self.now_s() - since_s)

    def fail(self, why: str) -> None:
        if not self.failed.done():
            self.failed.set_exception(RuntimeError(why))


class Socket(WSListener):
    """One WebSocket; `on_frame` sees all after the hello, and what the limiter refuses if it `may_be_refused`."""

    def __init__(self, tally: Tally, on_frame: Callable[[Answer], None], may_be_refused: bool = False) -> None:
        self.hello: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._may_be_refused = may_be_refused
        self._is_leaving = False
        self._tally = tally
        self._on_frame = on_frame
        self._transport: WSTransport | None = None

    def send(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.send(WSMsgType.TEXT, frame)

    async def leave(self) -> None:
        """Closed by us, which is no failure."""
        assert self._transport is not None
        self._is_leaving = True
        self._transport.send_close()
        self._transport.disconnect()
        await self._transport.wait_disconnected()

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        payload = frame.get_payload_as_bytes()
        if frame.msg_type != WSMsgType.TEXT:
            self._tally.fail(f"an unexpected frame: {frame.msg_type} {payload!r}")
            return
        answer = decode(payload)
        if answer.type == "error" and not (self._may_be_refused and answer.code in REFUSALS):
            self._tally.fail(said(answer.code, payload))
        elif answer.type == "hello":
            self.hello.set_result(None)
        else:
            self._on_frame(answer)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if not self._is_leaving:
            self._tally.fail("the server closed a connection")


def said(code: str | None, payload: bytes) -> str:
    """Return the line that explains a server's refusal to the operator."""
    text = payload.decode("utf-8", "replace")
    if code != "rate_limited":
        return f"the server refused: {text}"
    return f"the server's limits refuse this load; raise them (limits.*) or ask for less: {text}"


async def connect(
    url: str,
    token: str,
    tally: Tally,
    on_frame: Callable[[Answer], None],
    resume: dict[str, int] | None = None,
    *,
    may_be_refused: bool = False,
) -> Socket:
    """Returns after the hello."""
    socket = Socket(tally, on_frame, may_be_refused)
    await ws_connect(lambda: socket, f"ws{url.removeprefix('http')}/v1/ws", websocket_handshake_timeout=OPEN_S)
    socket.send(msgspec.json.encode({"id": 0, "type": "connect", "token": token, "resume": resume or {}}))
    await greeted(socket.hello, tally)
    return socket


async def greeted(hello: asyncio.Future[None], tally: Tally) -> None:
    await asyncio.wait((hello, tally.failed), timeout=OPEN_S, return_when=asyncio.FIRST_COMPLETED)
    if not hello.done():
        tally.fail("no hello")
        await tally.failed


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
        if b"content-length" not in fields:
            self._tally.fail("an answer without a content-length: a proxy in between cannot be measured over HTTP")
            return
        if len(body) < int(fields[b"content-length"]):
            return
        self._received = b""
        if not head.startswith(b"HTTP/1.1 200"):
            self._tally.fail(said("rate_limited" if b" 429 " in head[:16] else None, body))
            return
        self._on_body(decode(body))

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.fail("the server closed a connection")


async def open_http(url: str, tally: Tally, on_body: Callable[[Answer], None]) -> Http:
    parts = urlsplit(url)
    secure = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if secure else 80)
    loop = asyncio.get_running_loop()
    _, link = await loop.create_connection(lambda: Http(tally, on_body), parts.hostname or "", port, ssl=secure)
    return link


async def in_turn(openings: Sequence[Callable[[], Awaitable[Any]]]) -> None:
    """Open all, a few at a time."""
    for at in range(0, len(openings), OPENING_AT_ONCE):
        await asyncio.gather(*(opening() for opening in openings[at : at + OPENING_AT_ONCE]))
