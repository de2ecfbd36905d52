"""HTTP and WebSocket on one port: uvicorn's protocol parses requests, an upgrade hands the transport to picows.

`FrontDoor` guards the time before a request is whole: endless heads and slow senders are cut by one sweep. uvicorn's
own Server is not used: it installs signal handlers and exits the process, and both are wiring's. The inner classes of
uvicorn and picows are not public API; tests/gateway/test_server.py says when they changed.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import httptools
import msgspec
import uvicorn
from picows import WSAutoPingStrategy
from picows.picows import WSProtocol  # type: ignore[attr-defined]
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from tidings.bounds import FRAME_BYTES_MAX, HANDSHAKE_S, HTTP_FINISH_S, HTTP_HEAD_BYTES_MAX, HTTP_KEEP_ALIVE_S
from tidings.clock import Clock
from tidings.errors import TABLE
from tidings.gateway.auth import Auth
from tidings.gateway.bodies import ErrorBody, ErrorFacts
from tidings.gateway.connections import Connections
from tidings.gateway.dispatch import log
from tidings.gateway.pace import Pace
from tidings.gateway.sockets import Socket
from tidings.gateway.upgrade import Refusal, handshake_of, refusal_of_upgrade

READ_BUFFER_BYTES = 2048  # per socket, the least that picows takes; it grows with a large frame
SWEEP_S = 0.5  # how late a limit in time may be noticed
BACKLOG = 2048  # connections the kernel keeps while a storm of reconnects is accepted
UPGRADES_PER_TURN = 8  # about a millisecond of the loop; the connected are heard before the next ones

App = Callable[[Any, Any, Any], Any]


class GatewayServer:
    """One listening port. `drain` before `stop` lets clients go in order."""

    def __init__(
        self, app: App, connections: Connections, auth: Auth, allowed_origins: frozenset[str], clock: Clock
    ) -> None:
        self._config = uvicorn.Config(
            app,
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=HTTP_KEEP_ALIVE_S,
        )
        self._config.load()
        self._state = ServerState()
        self._gate = Gate(connections, allowed_origins, clock)
        self._connections = connections
        self._auth = auth
        self._clock = clock
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.TimerHandle | None = None

    @property
    def is_draining(self) -> bool:
        return self._connections.is_draining

    @property
    def open_requests(self) -> int:
        """HTTP connections on which a request is awaited or incomplete."""
        doors = self._state.connections
        return sum(isinstance(door, FrontDoor) and door.reading_since_s is not None for door in doors)

    async def start(self, host: str, port: int) -> int:
        """Listens; answers the actual port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new_front_door, host, port, backlog=BACKLOG)
        self._sweep_and_again()
        actual: int = self._server.sockets[0].getsockname()[1]
        return actual

    async def drain(self, spread_ms: int = 5_000) -> None:
        """No new sockets; clients are told when to come back, within `spread_ms`, and closed with 4001."""
        await self._connections.drain(spread_ms)

    async def stop(self) -> None:
        self._connections.is_draining = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._server is not None:
            self._server.close()
        await self._connections.stop()
        for door in list(self._state.connections):
            door.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=HTTP_FINISH_S)
        for door in list(self._state.connections):
            door.transport.abort()  # before its task is: uvicorn would answer for it, in words that are not ours
        for task in list(self._state.tasks):
            task.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)
        await self._auth.close()

    def revoke(self, user_id: str) -> None:
        """Closes the user's sockets with 4503, on every node; their tokens are looked at anew."""
        self._connections.revoke(user_id)

    def forget_user(self, user_id: str) -> None:
        """The account was changed on another node."""
        self._connections.forget_user(user_id)

    async def recheck(self, user_id: str) -> None:
        """Closes the user's sockets whose tokens were revoked without our hearing of it. Raises StoreError."""
        await self._connections.recheck(user_id)

    def _new_front_door(self) -> FrontDoor:
        return FrontDoor(self._gate, self._config, self._state)

    def _sweep_and_again(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep_and_again)
        self.sweep()

    def sweep(self) -> None:
        """Twice a second: cuts requests that never become whole, and sweeps the sockets."""
        self._connections.sweep()
        late_s = self._clock.monotonic_s() - HANDSHAKE_S
        for door in list(self._state.connections):
            if isinstance(door, FrontDoor) and door.reading_since_s is not None and door.reading_since_s < late_s:
                door.transport.abort()


class Gate:
    """What an upgrade needs to know."""

    def __init__(self, connections: Connections, allowed_origins: frozenset[str], clock: Clock) -> None:
        self.connections = connections
        self.allowed_origins = allowed_origins
        self.clock = clock
        self.pace = Pace(UPGRADES_PER_TURN)

    def refusal(self, method: str, target: bytes, headers: list[tuple[bytes, bytes]]) -> Refusal | None:
        if self.connections.is_draining:
            return Refusal(503, "unavailable", "this node is going away")
        return refusal_of_upgrade(method, target, headers, self.allowed_origins)


class FrontDoor(HttpToolsProtocol):
    """One TCP connection, until it becomes a WebSocket."""

    def __init__(self, gate: Gate, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self._gate = gate
        self._head_bytes = 0
        self._is_in_head = False
        self.reading_since_s: float | None = None  # a request is awaited or incomplete since then

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.reading_since_s = self._gate.clock.monotonic_s()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if not self._gate.pace.go(partial(self._upgrade, data[upgrade.args[0] :])):
                self.transport.pause_reading()  # what follows belongs to the WebSocket that there will be
            return
        except httptools.HttpParserError:
            self._refuse(Refusal(400, "bad_request", "not an HTTP request"))
            return
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HTTP_HEAD_BYTES_MAX:
                self._refuse(Refusal(431, "too_large", "the request's head is too large"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head, self._head_bytes = True, 0
        self.reading_since_s = self._gate.clock.monotonic_s()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.reading_since_s = None
        super().on_message_complete()

    def _should_upgrade_to_ws(self) -> bool:
        return True

    def _upgrade(self, early: bytes) -> None:
        if self.transport.is_closing():
            return  # gone while it waited for its turn
        if not self._should_upgrade():
            self._refuse(Refusal(400, "bad_request", "only an upgrade to WebSocket is known"))
            return
        headers = self.scope["headers"]
        refusal = self._gate.refusal(self.scope["method"], self.url, list(headers))
        if refusal is not None:
            self._refuse(refusal)
            return
        self.connections.discard(self)
        protocol = WebSocket(self._gate.connections.new_socket())
        protocol.connection_made(self.transport)
        protocol.feed(handshake_of(headers))
        self.transport.set_protocol(protocol)
        if not self.transport.is_reading():
            self.transport.resume_reading()
        protocol.feed(early)
        protocol.forget_handshake()
        self.__dict__.clear()  # uvloop's transport keeps its first protocol, empty from here on

    def _refuse(self, refusal: Refusal) -> None:
        """Below the application: the same body as everywhere, then the connection ends."""
        is_temporary = TABLE[refusal.code].is_temporary
        facts = ErrorFacts(refusal.code, refusal.message, is_temporary, None)
        body = msgspec.json.encode(ErrorBody(facts))
        version = b"sec-websocket-version: 13\r\n" if refusal.status == 426 else b""
        self.reading_since_s = None
        self.transport.write(
            b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"x-content-type-options: nosniff\r\n%bconnection: close\r\n\r\n%b"
            % (refusal.status, len(body), version, body)
        )
        self.transport.close()


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
            False,  # no auto ping: connections.py sweeps
            20,
            20,
            WSAutoPingStrategy.PING_WHEN_IDLE,
            False,  # no auto pong: pings are counted
            FRAME_BYTES_MAX,
            None,  # extra_headers
            READ_BUFFER_BYTES,
        )

    def feed(self, data: bytes) -> None:
        """As if it had come from the transport."""
        while data:
            room = self.get_buffer(-1)
            part = data[: len(room)]
            room[: len(part)] = part
            self.buffer_updated(len(part))
            data = data[len(part) :]

    def forget_handshake(self) -> None:
        """picows keeps the request and its answer for as long as the connection lives: here, without their headers."""
        for handshake in (self.transport.request, self.transport.response):
            if handshake is not None:
                handshake.headers = None

    def buffer_updated(self, size: int) -> None:
        super().buffer_updated(size)
        if self.transport.is_close_frame_sent and not self.listener.is_closing:
            self.listener.refused()
            self.transport.underlying_transport.set_protocol(Sink(self))


class Sink(asyncio.Protocol):
    """Takes over from a WebSocket that was refused: what it still sends is thrown away, not gathered."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    def connection_lost(self, exc: Exception | None) -> None:
        self._websocket.connection_lost(exc)


class QuietLogger:
    """For picows: a client's mistakes are not our log's, an exception of ours is."""

    def isEnabledFor(self, level: int) -> bool:
        return False

    def _nothing(self, *args: object) -> None:
        pass

    debug = info = warning = error = log = _nothing

    def exception(self, *args: object) -> None:
        error = sys.exc_info()[0]
        log.error("socket_failed", error=error.__name__ if error is not None else "unknown")


_QUIET = QuietLogger()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's where it is installed."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return asyncio.new_event_loop
    return factory
