"""Connections: all connections of the node, and their tasks. A timer sweeps them; revocation and drain close them.

This module guards the node's bounds. A client that does not connect in time, falls silent, holds an expired token or
lets too much wait unread is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tidings.bounds import CONNECT_S, IDLE_S, NODE_QUEUE_BYTES_MAX, PING_INTERVAL_S
from tidings.clock import Clock
from tidings.errors import Close
from tidings.gateway.auth import Authenticator
from tidings.gateway.connect import Connector
from tidings.gateway.connection import Connection
from tidings.gateway.dispatch import Dispatch, UseCases
from tidings.gateway.encode import EventEncoder, encode_frame
from tidings.gateway.fairness import Refusals
from tidings.gateway.socket import Flusher, Socket
from tidings.protocol.server_frames import Draining
from tidings.stores.tables.ports import Accounts

if TYPE_CHECKING:
    from tidings.gateway.front_door import FrontDoor

FINISH_S = 5.0  # a draining node waits this long for what sockets have under way
CUT_S = 0.5  # a node that stops waits this long for the close frames of its clients
POLL_S = 0.02  # the pause between two checks


class Connections:
    def __init__(
        self,
        auth: Authenticator,
        cases: UseCases,
        accounts: Accounts,
        clock: Clock,
        on_count: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._auth = auth
        self._cases = cases
        self._clock = clock
        self._on_count = on_count
        self.refusals = Refusals(cases.audit)
        self._dispatch = Dispatch(cases, clock, self.refusals)
        self._encoder = EventEncoder()
        self._flusher = Flusher()
        self.connector = Connector(auth, cases, accounts, clock, self.refusals)
        self.is_draining = False
        self._all: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._all)

    def new_socket(self) -> Socket:
        """A socket with its connection, for one upgrade."""
        connection = Connection(self, self._dispatch, self._encoder, self._clock)
        return Socket(connection, self._flusher, self._clock)

    # --- a connection calls these ---

    def opened(self, connection: Connection) -> None:
        self._all.add(connection)
        self._on_count(len(self._all))

    def lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._on_count(len(self._all))

    def run(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=f"gateway-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- the node calls these ---

    def revoke(self, user_id: str) -> None:
        """Close every connection of the user, on every node: their tokens are refused from now on."""
        self._auth.forget_user(user_id)
        self._cases.router.close(user_id, Close.REVOKED)

    def forget_user(self, user_id: str) -> None:
        """Another node has changed the account."""
        self._auth.forget_user(user_id)

    async def recheck(self, user_id: str) -> None:
        """Close connections whose tokens were revoked while this node heard nothing. Raises StoreError."""
        since_ms = await self._auth.valid_after_ms(user_id)
        for one in list(self._cases.hub.of_user(user_id)):
            if isinstance(one, Connection) and one.issued_ms < since_ms:  # also before hello
                one.close(Close.REVOKED)

    async def drain(self, spread_ms: int) -> None:
        """Tell every client when to come back, finish the requests under way, then close."""
        self.is_draining = True
        for connection in list(self._all):
            wait_ms = int(self._clock.random_fraction() * spread_ms)
            if connection.socket is not None:
                connection.socket.send(encode_frame(Draining(reconnect_in_ms=wait_ms)))
        await _wait_until(lambda: not any(one.in_flight for one in self._all), FINISH_S)
        for connection in list(self._all):
            connection.close(Close.DRAINING)
        await _wait_until(lambda: not self._all, FINISH_S)

    async def stop(self) -> None:
        for connection in list(self._all):
            connection.close(Close.DRAINING)
        await _wait_until(lambda: not self._all, CUT_S)
        for connection in list(self._all):
            connection.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await _wait_until(lambda: not self._all, CUT_S)

    # --- the sweep ---

    def sweep(self, doors: Sequence[FrontDoor] = ()) -> None:
        """Close dead connections. `doors` are the HTTP connections: what waits in them counts too."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        readers: list[tuple[int, Callable[[], None]]] = [(door.queued_bytes(), door.cut) for door in doors]
        for connection in list(self._all):
            _sweep(connection, now_s, now_ms)
            if connection.socket is not None:
                readers.append((connection.socket.queued_bytes(), partial(connection.close, Close.SLOW)))
        _end_largest(readers)


def _end_largest(readers: list[tuple[int, Callable[[], None]]]) -> None:
    """End the slowest readers while all queues together are too large. They come back and resume."""
    excess_bytes = sum(size for size, _ in readers) - NODE_QUEUE_BYTES_MAX
    if excess_bytes <= 0:
        return
    for size, end in sorted(readers, key=lambda pair: pair[0], reverse=True):
        if excess_bytes <= 0:
            return
        end()
        excess_bytes -= size


def _sweep(connection: Connection, now_s: float, now_ms: int) -> None:
    """Close the connection if its client or its token is dead; ping a client that is silent."""
    socket = connection.socket
    if socket is None or socket.is_closing:
        return
    if socket.is_heard:
        socket.is_heard = False
        connection.quiet_since_s = connection.pinged_s = now_s
    elif now_s - connection.quiet_since_s >= IDLE_S:
        connection.close(Close.NO_PONG)
    elif now_s - connection.pinged_s >= PING_INTERVAL_S:
        connection.pinged_s = now_s
        socket.send_ping()
    if connection.is_welcome:
        if now_ms >= connection.expires_ms:
            connection.close(Close.TOKEN_EXPIRED)
    elif now_s - connection.opened_s >= CONNECT_S and not connection.is_holding():
        connection.close(Close.NO_CONNECT)


async def _wait_until(is_done: Callable[[], bool], most_s: float) -> None:
    for _ in range(round(most_s / POLL_S)):
        if is_done():
            return
        await asyncio.sleep(POLL_S)
