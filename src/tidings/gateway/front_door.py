"""FrontDoor: one TCP connection, which carries HTTP requests until one of them upgrades it to a WebSocket.

uvicorn parses HTTP; the door bounds what may come in and what may wait to go out. A head has HTTP_HEAD_BYTES_MAX bytes,
however it arrives. Trailers are counted and dropped: a field that a gateway has not seen must never name the caller. A
request that is refused here is answered only where no earlier answer is still to come. The inner classes of uvicorn and
picows are not public API; tests/gateway/test_front_door.py fails when they change.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial

import httptools
import msgspec
import uvicorn
from picows import WSAutoPingStrategy
from picows.picows import WSProtocol  # type: ignore[attr-defined]
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from tidings.bounds import (
    FRAME_BYTES_MAX,
    HANDSHAKE_S,
    HTTP_CONNECTIONS_PER_USER_MAX,
    HTTP_HEAD_BYTES_MAX,
    HTTP_PIPELINED_MAX,
    HTTP_STALLED_S,
    SOCKET_READ_BYTES,
)
from tidings.clock import Clock
from tidings.errors import TABLE
from tidings.gateway.connections import Connections
from tidings.gateway.dispatch import log
from tidings.gateway.fairness import Owner, Pace, PerUser
from tidings.gateway.socket import Socket
from tidings.gateway.upgrade import Refusal, handshake_of, refusal_of_upgrade
from tidings.protocol.bodies import ErrorBody, ErrorFacts

READ_BUFFER_BYTES = 2048  # per socket, the least that picows takes; it grows with a large frame
UPGRADES_PER_TURN = 8  # about a millisecond of the loop; connected clients are served before the next ones

_SINGLE = frozenset((b"authorization", b"x-api-key", b"x-user-id", b"host", b"origin"))  # each decides who may do what


class Gate:
    """The parts of the node that a door needs."""

    def __init__(
        self, connections: Connections, allowed_origins: frozenset[str], clock: Clock, *, has_websocket: bool = True
    ) -> None:
        self.connections = connections
        self._has_websocket = has_websocket
        self.allowed_origins = allowed_origins
        self.clock = clock
        self.pace = Pace(UPGRADES_PER_TURN)
        self.per_user = PerUser(HTTP_CONNECTIONS_PER_USER_MAX)

    def refusal(self, method: str, target: bytes, headers: list[tuple[bytes, bytes]]) -> Refusal | None:
        if not self._has_websocket:
            return Refusal(404, "not_found", "this port serves /metrics alone")
        if self.connections.is_draining:
            return Refusal(503, "unavailable", "this node is going away; connect again")
        return refusal_of_upgrade(method, target, headers, self.allowed_origins)


class Refused(Exception):
    """Stops the parser inside a callback: the request is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class FrontDoor(HttpToolsProtocol):
    def __init__(self, gate: Gate, config: uvicorn.Config, state: ServerState) -> None:
        self._owner = Owner(gate.per_user)
        super().__init__(config=config, server_state=state, app_state={"owner": self._owner})
        self._gate = gate
        self._is_in_head = False
        self._is_deaf = False  # the rest of the input is thrown away
        self._field_bytes = 0  # of the head, or of the trailers, that are parsed
        self._unparsed_bytes = 0  # read since the last part of the message that was parsed
        self._messages_begun = 0  # in the current read
        self._has_body_come = False  # in the current read
        self.reading_since_s: float | None = None  # a request is awaited or incomplete since then
        self._unwritten_bytes = 0  # at the last sweep
        self._stalled_since_s: float | None = None  # the client has read nothing of its answer since then

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.connections.add(self)
        self.transport = transport
        self.flow = FlowControl(transport)
        self.client = get_remote_addr(transport)  # our own address, which uvicorn also asks for, is never used
        self.reading_since_s = self._gate.clock.monotonic_s()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.go()
        super().connection_lost(exc)

    # --- what comes in ---

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        self._unset_keepalive_if_required()
        was_in_head = self._is_in_head
        self._messages_begun, self._has_body_come = 0, False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if not self._gate.pace.go(partial(self._upgrade, data[upgrade.args[0] :])):
                self.transport.pause_reading()  # the next bytes belong to the WebSocket
            return
        except httptools.HttpParserError as error:
            cause = error.__context__
            told = cause.refusal if isinstance(cause, Refused) else _refusal(400, "this is not an HTTP request")
            self._refuse(told)
            return
        if self.reading_since_s is not None:
            self._count_unparsed(data, was_in_head)

    def _count_unparsed(self, data: bytes, was_in_head: bool) -> None:
        """Bound a field without an end, of which the parser has told nothing yet. The bytes of this read count unless
        they may belong to an earlier request, or to a body, which is bounded where it is read."""
        if self._is_in_head:
            is_counted = self._messages_begun == (0 if was_in_head else 1)
        else:
            is_counted = not self._messages_begun and not self._has_body_come
        if is_counted:
            self._unparsed_bytes += len(data)
            if self._unparsed_bytes > HTTP_HEAD_BYTES_MAX:
                self._refuse(_TOO_LONG)

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= HTTP_PIPELINED_MAX:
            raise Refused(_refusal(429, f"at most {HTTP_PIPELINED_MAX} requests may wait on one connection"))
        super().on_message_begin()
        self._is_in_head, self._field_bytes, self._unparsed_bytes = True, 0, 0
        self._messages_begun += 1
        self.reading_since_s = self._gate.clock.monotonic_s()

    def on_url(self, url: bytes) -> None:
        self._count_field(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_field(len(name) + len(value) + 4)
        if self._is_in_head:  # else it is a trailer
            super().on_header(name, value)

    def _count_field(self, size: int) -> None:
        self._field_bytes += size
        if self._field_bytes > HTTP_HEAD_BYTES_MAX:
            raise Refused(_TOO_LONG)

    def on_headers_complete(self) -> None:
        self._is_in_head, self._unparsed_bytes = False, 0
        single = [name for name, _ in self.headers if name in _SINGLE]
        if len(set(single)) < len(single):
            twice = next(name for name in single if single.count(name) > 1).decode()
            raise Refused(_refusal(400, f"the header `{twice}` must be given once"))
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_body_come, self._unparsed_bytes = True, 0
        if self._owner.is_streaming:
            self.reading_since_s = self._gate.clock.monotonic_s()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.reading_since_s = None
        super().on_message_complete()

    # --- what goes out ---

    def queued_bytes(self) -> int:
        """Bytes of answers that the client has not read."""
        return self.transport.get_write_buffer_size()

    def sweep(self, now_s: float) -> None:
        """Cut the connection when its request never becomes whole, or when its answer is not read."""
        queued = self.queued_bytes()
        if not queued or queued < self._unwritten_bytes or self._stalled_since_s is None:
            self._stalled_since_s = now_s if queued else None
        self._unwritten_bytes = queued
        is_stalled = self._stalled_since_s is not None and now_s - self._stalled_since_s > HTTP_STALLED_S
        is_slow = self.reading_since_s is not None and now_s - self.reading_since_s > HANDSHAKE_S
        if is_stalled or is_slow:
            self.cut()

    def cut(self) -> None:
        self.transport.abort()

    # --- the end: an upgrade or a refusal ---

    def _should_upgrade(self) -> bool:
        return True  # a request to upgrade never reaches the application

    def _upgrade(self, early: bytes) -> None:
        if self.transport.is_closing():
            return  # the client left while the upgrade waited
        if self._get_upgrade() != b"websocket":
            self._refuse(_refusal(400, "the only upgrade is to `websocket`"))
            return
        if len(early) > HTTP_HEAD_BYTES_MAX or self._is_answering():
            self._refuse(_refusal(400, "an upgrade comes alone: wait for the answer before it, and for its own"))
            return
        headers = self.scope["headers"]
        refusal = self._gate.refusal(self.scope["method"], self.url, list(headers))
        if refusal is not None:
            self._refuse(refusal)
            return
        self._owner.go()
        self.connections.discard(self)
        protocol = WebSocket(self._gate.connections.new_socket())
        protocol.connection_made(self.transport)
        protocol.feed(handshake_of(headers))
        self.transport.set_protocol(protocol)
        if not self.transport.is_reading():
            self.transport.resume_reading()
        protocol.feed(early)
        protocol.forget_handshake()
        self.__dict__.clear()  # uvloop's transport keeps its first protocol, which is empty from here on

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, refusal: Refusal) -> None:
        """Answer below the application, with the same body as everywhere, and end the connection. An answer that is
        still to come goes first and ends it instead, or the client would take the refusal for that answer."""
        self._is_deaf = True
        self.reading_since_s = None
        if self._is_answering():
            if not self.cycle.more_body:
                self.cycle.keep_alive = False
                return
            if self.pipeline or self.cycle.response_started:
                self.cut()
                return
            self.cycle.disconnected = True  # the request that is refused: the application answers it no more
            self.cycle.message_event.set()
        self.transport.write(_bytes_of(refusal))
        self.transport.close()


def _refusal(status: int, message: str) -> Refusal:
    return Refusal(status, "rate_limited" if status == 429 else "bad_request", message)


_TOO_LONG = Refusal(431, "too_large", f"a request has {HTTP_HEAD_BYTES_MAX} bytes of headers and trailers at most")


def _bytes_of(refusal: Refusal) -> bytes:
    facts = ErrorFacts(refusal.code, refusal.message, TABLE[refusal.code].is_temporary, None)
    body = msgspec.json.encode(ErrorBody(facts))
    version = b"sec-websocket-version: 13\r\n" if refusal.status == 426 else b""
    return (
        b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"x-content-type-options: nosniff\r\n%bconnection: close\r\n\r\n%b" % (refusal.status, len(body), version, body)
    )


class WebSocket(WSProtocol):  # type: ignore[misc]
    """picows' parser with our limits, writing to our Socket."""

    def __init__(self, socket: Socket) -> None:
        super().__init__(
            None,  # host_port, of a client only
            None,  # ws_path, the same
            False,  # is_client_side
            socket.chosen_for,
            _QUIET,
            True,  # disconnect_on_exception
            None,  # no handshake timeout: the request is whole
            False,  # no auto ping: connections.py sends pings
            20,
            20,
            WSAutoPingStrategy.PING_WHEN_IDLE,
            False,  # no auto pong: pings are counted
            FRAME_BYTES_MAX,
            None,  # extra_headers
            READ_BUFFER_BYTES,
        )
        self._late_bytes = 0  # read after our close frame

    def feed(self, data: bytes) -> None:
        """Parse bytes as if they had come from the transport."""
        while data:
            room = self.get_buffer(-1)
            part = data[: len(room)]
            room[: len(part)] = part
            self.buffer_updated(len(part))
            data = data[len(part) :]

    def forget_handshake(self) -> None:
        """Drop the headers: picows keeps the request and its answer for as long as the connection lives."""
        for handshake in (self.transport.request, self.transport.response):
            if handshake is not None:
                handshake.headers = None

    def get_buffer(self, size_hint: int) -> memoryview:
        """The room for one read: a slice, or a flood of small frames would fill a turn of the event loop."""
        return super().get_buffer(size_hint)[:SOCKET_READ_BYTES]  # type: ignore[no-any-return]

    def buffer_updated(self, size: int) -> None:
        super().buffer_updated(size)
        if self.transport.is_close_frame_sent:
            self._read_after_close(size)
        if size == SOCKET_READ_BYTES:
            self.listener.rest()

    def _read_after_close(self, size: int) -> None:
        """The client's own close frame is awaited for a while. Then, or after a frame that RFC 6455 forbids, nothing is
        parsed any more."""
        is_forbidden = not self.listener.is_closing
        if is_forbidden:
            self.listener.refused()
        self._late_bytes += size
        if is_forbidden or self._late_bytes > FRAME_BYTES_MAX:
            self.transport.underlying_transport.set_protocol(Sink(self))


class Sink(asyncio.Protocol):
    """Takes over from a WebSocket that is closed. Further bytes of the client are thrown away."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    def connection_lost(self, exc: Exception | None) -> None:
        self._websocket.connection_lost(exc)


class QuietLogger:
    """The logger of picows: mistakes of a client are not logged, exceptions of ours are."""

    def isEnabledFor(self, level: int) -> bool:
        return False

    def _nothing(self, *args: object) -> None:
        pass

    debug = info = warning = error = log = _nothing

    def exception(self, *args: object) -> None:
        error = sys.exc_info()[0]
        log.error("socket failed", extra={"error": error.__name__ if error is not None else "unknown"})


_QUIET = QuietLogger()
