"""GatewayServer: HTTP and WebSocket on one port, from the first byte to the drain.

A `FrontDoor` owns each TCP connection until it becomes a WebSocket. One sweep cuts slow senders and slow readers of
both kinds. uvicorn's own Server is not used, because it installs signal handlers and exits the process; the node does
both itself.
"""

from __future__ import annotations

import asyncio
import importlib
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from tidings.bounds import HTTP_FINISH_S, HTTP_KEEP_ALIVE_S
from tidings.clock import Clock
from tidings.gateway.auth import API_KEY_S, Authenticator
from tidings.gateway.connections import Connections
from tidings.gateway.front_door import FrontDoor, Gate
from tidings.tasks import Loop, cancel, to_beat_s

SWEEP_S = 0.5  # a limit in time is noticed this late
BACKLOG = 2048  # connections that the kernel keeps while a storm of reconnects is accepted

App = Callable[[Any, Any, Any], Any]


class GatewayServer:
    """One listening port, and a second one for `metrics_app`. `drain` before `stop` lets clients leave in order."""

    def __init__(
        self,
        app: App,
        connections: Connections,
        auth: Authenticator,
        allowed_origins: frozenset[str],
        clock: Clock,
        metrics_app: App | None = None,
        *,
        shares_port: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`shares_port`: other processes listen on the same port, and the kernel spreads the connections.

        `tls`: the certificate of the port. The port of the metrics has none."""
        self._tls = tls
        self._shares_port = shares_port
        self._config = _config_of(app)
        self._metrics_app = metrics_app
        self._state = ServerState()
        self._gate = Gate(connections, allowed_origins, clock)
        self._connections = connections
        self._auth = auth
        self._clock = clock
        self._servers: list[asyncio.Server] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self._bot_keys = Loop("bot-keys", API_KEY_S, self.close_revoked_bots)

    @property
    def is_draining(self) -> bool:
        return self._connections.is_draining

    @property
    def open_requests(self) -> int:
        """How many HTTP connections wait for a request, or for the rest of one."""
        return sum(door.reading_since_s is not None for door in self._doors())

    async def start(self, host: str, port: int) -> int:
        """Listen. Returns the actual port."""
        actual = await self._listen(self._new_front_door, host, port, self._tls)
        self._sweep_and_again()
        self._bot_keys.start()
        return actual

    async def start_metrics(self, host: str, port: int) -> int:
        """Listen on the port of the metrics, where nothing else is served and nothing is upgraded."""
        assert self._metrics_app is not None
        config = _config_of(self._metrics_app)
        gate = Gate(self._connections, frozenset(), self._clock, has_websocket=False)
        return await self._listen(lambda: FrontDoor(gate, config, self._state), host, port)

    async def _listen(
        self, new_door: Callable[[], FrontDoor], host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> int:
        server = await asyncio.get_running_loop().create_server(
            new_door, host, port, backlog=BACKLOG, reuse_port=self._shares_port or None, ssl=tls
        )
        self._servers.append(server)
        actual: int = server.sockets[0].getsockname()[1]
        return actual

    async def drain(self, spread_ms: int = 5_000) -> None:
        """Accept no new sockets. Tell the clients when to come back, within `spread_ms`, and close them with 4001.

        On a shared port the kernel must send new connections to the other workers, so this one stops listening."""
        if self._shares_port:
            self._close_servers()
        await self._connections.drain(spread_ms)

    async def stop(self) -> None:
        self._connections.is_draining = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._bot_keys.stop()
        self._close_servers()
        await self._connections.stop()
        for door in list(self._state.connections):
            door.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=HTTP_FINISH_S)
        for door in list(self._state.connections):
            door.transport.abort()  # before its task ends: uvicorn would answer for it, in words that are not ours
        await cancel(*self._state.tasks)
        await self._auth.close()

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    def revoke(self, user_id: str) -> None:
        """Close the user's sockets with 4503, on every node; the next token is checked with the tables."""
        self._connections.revoke(user_id)

    def forget_user(self, user_id: str) -> None:
        """The account was changed on another node."""
        self._connections.forget_user(user_id)

    async def recheck(self, user_id: str) -> None:
        """Close sockets of the user whose tokens were revoked while this node heard nothing. Raises StoreError."""
        await self._connections.recheck(user_id)

    async def close_revoked_bots(self) -> None:
        """Close sockets of bots whose key was revoked, by any node or command, with 4503. Raises StoreError."""
        await self._connections.close_revoked_bots()

    def _new_front_door(self) -> FrontDoor:
        return FrontDoor(self._gate, self._config, self._state)

    def _sweep_and_again(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(to_beat_s(SWEEP_S), self._sweep_and_again)
        self.sweep()

    def sweep(self) -> None:
        """Cut requests that never become whole and answers that nobody reads, and sweep the sockets. A timer does it
        twice a second."""
        now_s = self._clock.monotonic_s()
        doors = self._doors()
        for door in doors:
            door.sweep(now_s)
        self._connections.sweep(doors)

    def _doors(self) -> list[FrontDoor]:
        return [door for door in self._state.connections if isinstance(door, FrontDoor)]


def _config_of(app: App) -> uvicorn.Config:
    config = uvicorn.Config(
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
    config.load()
    return config


def open_tls(cert: Path, key: Path | None) -> ssl.SSLContext:
    """The certificate of a port. Raises ValueError, with one line for the operator."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key)
    except OSError as error:  # ssl.SSLError is one
        files = f"{cert} and {key}" if key else str(cert)
        why = error.strerror if not isinstance(error, ssl.SSLError) else "no certificate and key that fit each other"
        raise ValueError(f"tls.cert, tls.key: cannot use {files}: {why}") from None
    return context


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's event loop where it is installed, else asyncio's."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return asyncio.new_event_loop
    return factory
