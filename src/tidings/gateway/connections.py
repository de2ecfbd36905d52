"""Connections: all connections of the node, and their tasks. A timer looks at them; revocation and drain close them.

This module guards the node's bounds. A client that does not connect in time, falls silent, holds an expired token or
lets too much wait unread is closed. A connection at rest costs nothing but its ping: the sweep takes from a wheel the
connections that are due, and asks only those for unread bytes that were written to.
"""

from __future__ import annotations

import asyncio
import math
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
from tidings.gateway.fairness import Intake, Refusals
from tidings.gateway.folded_acks import AckCharges, ReadMoments
from tidings.gateway.socket import Flusher, Socket
from tidings.protocol.server_frames import Draining
from tidings.stores.tables.ports import Accounts
from tidings.tasks import cancel

if TYPE_CHECKING:
    from tidings.gateway.front_door import FrontDoor

FINISH_S = 5.0  # a draining node waits this long for what sockets have under way
CUT_S = 0.5  # a node that stops waits this long for the close frames of its clients
POLL_S = 0.02  # the pause between two checks
SLOT_S = 0.5  # a connection is looked at this late


class Wheel:
    """Connections by the time at which each is looked at next, in slots of SLOT_S."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: dict[int, list[Connection]] = {}

    def put(self, connection: Connection, at_s: float) -> None:
        """Look at the connection at this time, and not at the time that was set before."""
        connection.slot = math.ceil(at_s / SLOT_S)
        self._slots.setdefault(connection.slot, []).append(connection)

    def put_by(self, connection: Connection, at_s: float) -> None:
        """Look at the connection at this time, unless an earlier time is set."""
        if at_s < (connection.slot - 1) * SLOT_S:
            self.put(connection, at_s)

    def take(self, now_s: float) -> list[Connection]:
        """Take the connections whose time has come."""
        now = int(now_s / SLOT_S)
        due = [slot for slot in self._slots if slot <= now]
        return [one for slot in due for one in self._slots.pop(slot) if one.slot == slot]


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
        self._intake, self._flusher = Intake(), Flusher()
        server_of = partial(cases.limiter.server_of, "read")
        self.ack_charges = AckCharges(self._dispatch.deliver, self.run, server_of)
        self.read_moments = ReadMoments(self._dispatch.read_together, self.run, server_of)
        self.connector = Connector(auth, cases, accounts, clock, self.refusals)
        self.is_draining = False
        self._all: set[Connection] = set()
        self._wheel = Wheel()
        self._lagging: set[Socket] = set()  # bytes wait in these, as of the last sweep
        self._tasks: set[asyncio.Task[None]] = set()
        self._bots: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._all)

    def new_socket(self) -> Socket:
        """A socket with its connection, for one upgrade."""
        connection = Connection(self, self._dispatch, self._encoder, self._clock)
        return Socket(connection, self._intake, self._flusher, self._clock)

    # --- a connection calls these ---

    def opened(self, connection: Connection) -> None:
        self._all.add(connection)
        self._wheel.put(connection, connection.opened_s + CONNECT_S)
        self._on_count(len(self._all))

    def kept(self, connection: Connection) -> None:
        """The connection has a token: look at it when the token expires, at the latest."""
        if connection not in self._all:
            return  # it was lost while the token was checked
        self._wheel.put_by(connection, self._expiry_s(connection))
        if connection.key_hash is not None:
            self._bots.add(connection)
        else:
            self._bots.discard(connection)

    def lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._bots.discard(connection)
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

    async def close_revoked_bots(self) -> None:
        """Close connections of bots whose key is revoked: the command that revokes one may reach no node."""
        asked = {bot: bot.key_hash for bot in self._bots}  # the answer knows no key that is made while it is read
        valid = await self._auth.key_hashes() if asked else frozenset[str]()
        for bot, key_hash in asked.items():
            if key_hash not in valid and bot.key_hash == key_hash:
                bot.close(Close.REVOKED)

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
        await cancel(*self._tasks)
        await _wait_until(lambda: not self._all, CUT_S)

    # --- the sweep ---

    def sweep(self, doors: Sequence[FrontDoor] = ()) -> None:
        """Close dead connections. `doors` are the HTTP connections: what waits in them counts too."""
        for connection in self._wheel.take(self._clock.monotonic_s()):
            if connection.is_open():
                self._look(connection)
        readers: list[tuple[int, Callable[[], None]]] = [(door.queued_bytes(), door.cut) for door in doors]
        written = self._lagging | self._flusher.take_written()
        self._lagging = {one for one in written if one.is_connected and one.queued_bytes()}
        readers += [(one.queued_bytes(), partial(one.connection.close, Close.SLOW)) for one in self._lagging]
        _end_largest(readers)

    def _look(self, connection: Connection) -> None:
        """Close the connection if its client or its token is dead; ping a client that is silent."""
        socket, now_s = connection.socket, self._clock.monotonic_s()
        assert socket is not None
        is_late = now_s - connection.opened_s >= CONNECT_S and not connection.is_holding()
        if now_s - socket.heard_s >= IDLE_S:
            connection.close(Close.NO_PONG)
        elif connection.is_welcome and self._expiry_s(connection) <= now_s:
            connection.close(Close.TOKEN_EXPIRED)
        elif is_late and not connection.is_welcome:
            connection.close(Close.NO_CONNECT)
        else:
            if now_s - max(socket.heard_s, connection.pinged_s) >= PING_INTERVAL_S:
                connection.pinged_s = now_s
                socket.send_ping()
            self._wheel.put(connection, self._next_look_s(connection, socket, now_s))

    def _next_look_s(self, connection: Connection, socket: Socket, now_s: float) -> float:
        ping_s = max(socket.heard_s, connection.pinged_s) + PING_INTERVAL_S
        end_s = (
            self._expiry_s(connection)
            if connection.is_welcome
            else max(connection.opened_s + CONNECT_S, now_s + SLOT_S)
        )
        return min(ping_s, socket.heard_s + IDLE_S, end_s)

    def _expiry_s(self, connection: Connection) -> float:
        """When the token expires, on the monotonic clock."""
        return self._clock.monotonic_s() + (connection.expires_ms - self._clock.now_ms()) / 1000


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


async def _wait_until(is_done: Callable[[], bool], most_s: float) -> None:
    for _ in range(round(most_s / POLL_S)):
        if is_done():
            return
        await asyncio.sleep(POLL_S)
