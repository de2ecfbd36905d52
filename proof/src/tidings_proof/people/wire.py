"""The wire as a rude client uses it: a raw WebSocket that does what no good client would, and plain REST.

It can say anything at any moment, stop reading, vanish in the middle, and it never retries. Each frame goes to the
owner at once, in order.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import picows

Frame = dict[str, Any]
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode
_REST_S = 5.0


class Line:
    """One connection. `on_frame` gets every frame; `answers` of requests are resolved too."""

    def __init__(self, number: int, port: int, on_frame: Callable[[Line, Frame], None]) -> None:
        self.number = number
        self.port = port
        self.is_welcome = False  # hello was heard
        self.lost = asyncio.Event()
        self.close_code = 0
        self._on_frame = on_frame
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Frame]] = {}
        self._transport: picows.WSTransport | None = None

    @property
    def is_live(self) -> bool:
        return self.is_welcome and not self.lost.is_set()

    async def open(self) -> None:
        """The socket alone. Raises OSError or picows.WSError."""
        self._transport, _ = await picows.ws_connect(
            lambda: _Listener(self), f"ws://127.0.0.1:{self.port}/v1/ws", enable_auto_pong=True
        )

    def say(self, frame: Frame) -> None:
        if self._transport is not None and not self.lost.is_set():
            self._transport.send(picows.WSMsgType.TEXT, _encode(frame))

    def ask(self, type_: str, **fields: Any) -> asyncio.Future[Frame]:
        """Said now; the answer is the future's, or ConnectionError."""
        id_ = next(self._ids)
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        if self.lost.is_set() or self._transport is None:
            answer.set_exception(ConnectionError("not connected"))
            return answer
        self._answers[id_] = answer
        self.say({"id": id_, "type": type_, **fields})
        return answer

    def cut(self) -> None:
        """Vanish without a word."""
        if self._transport is not None and not self.lost.is_set():
            self._transport.underlying_transport.abort()

    def leave(self) -> None:
        """As a client that is closed by its user."""
        if self._transport is not None and not self.lost.is_set():
            self._transport.send_close(picows.WSCloseCode.OK)
            self._transport.disconnect()

    def stop_reading(self) -> None:
        if self._transport is not None and not self.lost.is_set():
            self._transport.underlying_transport.pause_reading()

    def read_on(self) -> None:
        if self._transport is not None and not self.lost.is_set():
            self._transport.underlying_transport.resume_reading()

    def hear(self, payload: bytes) -> None:
        frame = _decode(payload)
        if frame["type"] == "hello":
            self.is_welcome = True
        self._on_frame(self, frame)
        answer = self._answers.pop(frame.get("id", 0), None)
        if answer is not None and not answer.done():
            answer.set_result(frame)

    def ended(self) -> None:
        self.lost.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError(f"closed with {self.close_code}"))
                answer.exception()  # who gave up waiting does not look
        self._answers.clear()


class _Listener(picows.WSListener):
    def __init__(self, line: Line) -> None:
        self._line = line

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        if frame.msg_type == picows.WSMsgType.TEXT:
            self._line.hear(frame.get_payload_as_bytes())
        elif frame.msg_type == picows.WSMsgType.CLOSE:
            self._line.close_code = int(frame.get_close_code().value)
            transport.disconnect()

    def on_ws_disconnected(self, transport: picows.WSTransport) -> None:
        self._line.ended()


async def rest(port: int, token: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Status and decoded answer of one request on a connection of its own. A body of bytes is sent as it is.

    Raises OSError (a timeout is one).
    """
    async with asyncio.timeout(_REST_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            raw = body if isinstance(body, bytes) else b"" if body is None else _encode(body)
            head = (
                f"{method} {path} HTTP/1.1\r\nHost: torture\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
            )
            writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw)
            return _parsed(await reader.read())
        finally:
            writer.transport.abort()


def _parsed(answer: bytes) -> tuple[int, Any]:
    head, end, content = answer.partition(b"\r\n\r\n")
    words = head.split(maxsplit=2)
    if not end or len(words) < 2:
        raise ConnectionError("the answer was cut off")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), None)
    if length is not None and length != len(content):
        raise ConnectionError("the answer was cut off")
    return int(words[1]), _decoded(content) if content else None


def _decoded(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        return content.decode("utf-8", "replace")  # whoever asked for JSON will say so
