"""Socket: one WebSocket on picows, the thin shell around a connection. Frames become whole texts, texts become frames.

The socket guards the wire: pieces of a text are put together up to FRAME_BYTES_MAX, a frame that RFC 6455 forbids
closes with its code, and the queue of unwritten bytes is bounded. The frames of one loop turn go out in one write;
`Flusher` is the list of that turn. Everything here runs on the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from tidings.bounds import (
    BAD_FRAMES_WINDOW_S,
    CLOSE_LINGER_S,
    FLUSH_BYTES,
    FRAGMENTS_MAX,
    FRAME_BYTES_MAX,
    PINGS_MAX,
    SOCKET_QUEUE_BYTES_MAX,
)
from tidings.clock import Clock
from tidings.errors import Close
from tidings.gateway.fairness import Intake

if TYPE_CHECKING:
    from tidings.gateway.connection import Connection

PROTOCOL_ERROR, UNSUPPORTED, BAD_TEXT, TOO_BIG = 1002, 1003, 1007, 1009
LATE_MAX = 16  # texts of a socket that wait for their turn, while it is still read
DROP_BYTES = SOCKET_QUEUE_BYTES_MAX // 4  # above it the reader lags, and momentary events are dropped

_HEADERS = tuple(
    bytes((0x81, size)) if size < 126 else b"\x81\x7e" + size.to_bytes(2, "big") for size in range(1024)
)  # of a text frame, by the size of its text: most frames are short


class Window:
    """A window: counts events, and knows when there are more than `most` within `span_s`."""

    __slots__ = ("_count", "_since_s")

    def __init__(self) -> None:
        self._count = 0
        self._since_s = 0.0

    def is_over(self, now_s: float, most: int, span_s: float) -> bool:
        if now_s - self._since_s > span_s:
            self._since_s, self._count = now_s, 0
        self._count += 1
        return self._count > most


class Flusher:
    """The sockets that have something to write at the end of this loop turn."""

    __slots__ = ("_dirty", "_written")

    def __init__(self) -> None:
        self._dirty: list[Socket] = []
        self._written: set[Socket] = set()

    def add(self, socket: Socket) -> None:
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self._flush)
        self._dirty.append(socket)
        self._written.add(socket)

    def take_written(self) -> set[Socket]:
        """The sockets that were written to since the last call."""
        written, self._written = self._written, set()
        return written

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for socket in dirty:
            socket.flush()


class Socket(WSListener):
    __slots__ = (
        "_clock",
        "_drained",
        "_flusher",
        "_intake",
        "_is_held",
        "_is_resting",
        "_late",
        "_out",
        "_out_bytes",
        "_piece_count",
        "_pieces",
        "_pings",
        "_slack_bytes",
        "_transport",
        "_turn",
        "_under",
        "connection",
        "heard_s",
        "is_closing",
    )

    def __init__(self, connection: Connection, intake: Intake, flusher: Flusher, clock: Clock) -> None:
        self.connection = connection
        self.heard_s = clock.monotonic_s()  # when the client sent its last frame
        self.is_closing = False
        self._intake = intake
        self._turn = -1  # the last one with a frame of this socket
        self._late: deque[str] | None = None  # texts that wait for a later turn
        self._flusher = flusher
        self._clock = clock
        self._transport: WSTransport | None = None
        self._is_held = False  # the connection takes no frames now
        self._is_resting = False  # this turn of the loop has read its share
        self._under: asyncio.WriteTransport | None = None  # below picows: it takes the bytes as they are
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._slack_bytes = 0
        self._pieces: bytearray | None = None
        self._piece_count = 0
        self._pings: Window | None = None
        self._drained: asyncio.Event | None = None

    # --- picows calls these ---

    def chosen_for(self, request: object) -> Socket:
        """The listener of an upgrade: this socket."""
        return self

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        self._under = transport.underlying_transport
        self.connection.opened(self)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        self.heard_s = self._clock.monotonic_s()
        kind = frame.msg_type
        if self.is_closing:
            if kind is WSMsgType.CLOSE:
                transport.disconnect()
        elif frame.rsv1 or frame.rsv2 or frame.rsv3:
            self._close(PROTOCOL_ERROR)
        elif kind is WSMsgType.TEXT and frame.fin and self._pieces is None:
            self._receive(frame)
        else:
            self._receive_other(transport, frame, kind)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.is_closing = True
        self._out.clear()
        self._pieces = self._late = None
        if self._drained is not None:
            self._drained.set()
        self.connection.lost()

    def pause_writing(self) -> None:
        self._drained = asyncio.Event()

    def resume_writing(self) -> None:
        if self._drained is not None:
            self._drained.set()
            self._drained = None

    @property
    def is_connected(self) -> bool:
        """False: the TCP connection is gone."""
        return self.connection.socket is self

    # --- reading ---

    def _receive(self, frame: WSFrame) -> None:
        try:
            text = frame.get_payload_as_utf8_text()
        except UnicodeDecodeError:
            self._close(BAD_TEXT)
            return
        self._take(text)

    def _take(self, text: str) -> None:
        """Hand a text to the connection, or keep it for a later turn. With many of these the socket is not read."""
        if self._late is not None:
            self._late.append(text)
            if len(self._late) == LATE_MAX:
                self._read_or_not()
        elif self._intake.has_room() or self._turn != self._intake.turn:
            self._turn = self._intake.turn
            self.connection.receive(text)
        else:
            self._late = deque((text,))
            self._intake.wait(self)

    def take_late(self) -> bool:
        """Take one of the texts that wait. True: more of them wait."""
        if not self._late or self.is_closing:
            return False
        text = self._late.popleft()
        if not self._late:
            self._late = None
            self._read_or_not()
        self.connection.receive(text)
        return self._late is not None

    def _is_full(self) -> bool:
        return self._late is not None and len(self._late) >= LATE_MAX

    def _receive_other(self, transport: WSTransport, frame: WSFrame, kind: WSMsgType) -> None:
        if kind is WSMsgType.CLOSE:
            while self.take_late():
                continue
            self._answer_close(frame)
        elif kind is WSMsgType.PING or kind is WSMsgType.PONG:
            self._receive_ping(transport, frame, kind)
        elif kind is WSMsgType.BINARY:
            self._close(UNSUPPORTED)
        elif (kind is WSMsgType.CONTINUATION) is (self._pieces is None):
            self._close(PROTOCOL_ERROR)  # a piece of nothing, or a new text inside another
        else:
            self._receive_piece(frame)

    def _receive_ping(self, transport: WSTransport, frame: WSFrame, kind: WSMsgType) -> None:
        if self.count_ping():
            self._close(Close.TOO_MANY_REQUESTS)
        elif kind is WSMsgType.PING:
            self.flush()
            transport.send_pong(frame.get_payload_as_bytes())

    def count_ping(self) -> bool:
        """Count a ping. True: pings come as a flood."""
        if self._pings is None:
            self._pings = Window()
        return self._pings.is_over(self._clock.monotonic_s(), PINGS_MAX, BAD_FRAMES_WINDOW_S)

    def _receive_piece(self, frame: WSFrame) -> None:
        if self._pieces is None:
            self._pieces, self._piece_count = bytearray(), 0
        self._piece_count += 1
        if len(self._pieces) + frame.payload_size > FRAME_BYTES_MAX or self._piece_count > FRAGMENTS_MAX:
            self._pieces = None
            self._close(TOO_BIG)
            return
        self._pieces += frame.get_payload_as_memoryview()
        if frame.fin:
            whole, self._pieces = self._pieces, None
            try:
                text = whole.decode()
            except UnicodeDecodeError:
                self._close(BAD_TEXT)
                return
            self._take(text)

    def _answer_close(self, frame: WSFrame) -> None:
        assert self._transport is not None
        if not self.is_closing:
            self.is_closing = True
            self.flush()
            self._transport.send_close(frame.get_close_code())
        self._transport.disconnect()

    def pause_reading(self) -> None:
        """Leave the next frames of the client unread in the kernel."""
        self._is_held = True
        self._read_or_not()

    def resume_reading(self) -> None:
        self._is_held = False
        self._read_or_not()

    def rest(self) -> None:
        """Read the next bytes in the next turn of the loop: the others come first."""
        if not self._is_resting:
            self._is_resting = True
            asyncio.get_running_loop().call_soon(self._end_rest)
            self._read_or_not()

    def _end_rest(self) -> None:
        self._is_resting = False
        self._read_or_not()

    def _read_or_not(self) -> None:
        assert self._transport is not None
        transport = self._transport.underlying_transport
        is_wanted = not (self._is_held or self._is_resting or self._is_full())
        if not transport.is_closing() and transport.is_reading() is not is_wanted:
            if is_wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()

    # --- writing ---

    def queued_bytes(self) -> int:
        return (self._under.get_write_buffer_size() if self._under is not None else 0) + self._out_bytes

    def send(self, payload: bytes) -> None:
        """Queue a text frame. Never blocks, never raises; a reader that is too slow is closed instead."""
        if self.is_closing:
            return
        size = len(payload)
        out = self._out
        if not out:
            self._flusher.add(self)
        if size < len(_HEADERS):
            out.append(_HEADERS[size])
        elif size < 65_536:
            out.append(b"\x81\x7e" + size.to_bytes(2, "big"))
        else:
            out.append(b"\x81\x7f" + size.to_bytes(8, "big"))
        out.append(payload)
        self._out_bytes += size
        if self._out_bytes > FLUSH_BYTES:
            self._slack_bytes = max(self._slack_bytes, size)
            self.flush()

    def send_if_quick(self, payload: bytes) -> None:
        """Queue a momentary event, unless the reader lags."""
        if self.queued_bytes() <= DROP_BYTES:
            self.send(payload)

    def send_ping(self) -> None:
        if not self.is_closing and self._transport is not None:
            self.flush()
            self._transport.send_ping()

    def flush(self) -> None:
        """Write the frames of this turn. A reader is slow when too many bytes of earlier turns still wait. One answer
        may be larger than the whole queue, so the largest one that waits does not count."""
        out, under = self._out, self._under
        if not out or under is None:
            return
        waiting = under.get_write_buffer_size()
        if waiting > SOCKET_QUEUE_BYTES_MAX + self._slack_bytes and not self.is_closing:
            out.clear()
            self.close(Close.SLOW)
            return
        if waiting == 0:
            self._slack_bytes = self._out_bytes - FLUSH_BYTES if self._out_bytes > FLUSH_BYTES else 0
        under.write(b"".join(out))
        out.clear()
        self._out_bytes = 0

    async def drained(self) -> None:
        """Returns when the reader keeps up or is gone."""
        self.flush()
        if self._drained is not None and not self.is_closing:
            await self._drained.wait()

    # --- ending ---

    def close(self, code: Close, reason: str = "") -> None:
        self._close(code, reason)

    def _close(self, code: int, reason: str = "") -> None:
        """Send the close frame behind the queued frames. A client that does not read it in time is cut."""
        if self.is_closing or self._transport is None:
            return
        self.is_closing, self._late = True, None
        self.flush()
        self._transport.send_close(cast(WSCloseCode, code), reason.encode()[:120])  # any number works
        self.resume_reading()  # the client's own close frame is awaited
        asyncio.get_running_loop().call_later(CLOSE_LINGER_S, self.cut)
        self.connection.closing()

    def refused(self) -> None:
        """picows has closed because of a frame that RFC 6455 forbids: nothing more is read or written."""
        self.is_closing = True
        self._pieces = None
        self._out.clear()
        self.connection.closing()

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.disconnect(False)
