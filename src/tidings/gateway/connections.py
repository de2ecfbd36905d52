"""All sockets of the node: the server's timer sweeps them, revocation and drain close them, their tasks are kept.

It guards the node's bounds: who does not connect in time, is silent, expired or hoards memory is closed. server.py
makes one and asks it for a peer per upgrade.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tidings.bounds import NODE_QUEUE_BYTES_MAX
from tidings.clock import Clock
from tidings.errors import Close, Unauthorized
from tidings.gateway import protocol
from tidings.gateway.auth import Auth
from tidings.gateway.connection import Connection
from tidings.gateway.dispatch import Dispatch
from tidings.gateway.frames import Draining, EventEncoder, encode_frame
from tidings.gateway.refusals import Refusals
from tidings.gateway.sockets import Flusher, Socket
from tidings.gateway.usecases import UseCases
from tidings.gateway.welcome import Welcome
from tidings.stores.ports import Accounts

FINISH_S = 5.0  # a draining node waits this long for what sockets have under way
CUT_S = 0.5  # a node that stops waits this long for the close frames of its peers
POLL_S = 0.02  # how often it looks


class Connections:
    def __init__(
        self,
        auth: Auth,
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
        self._welcome = Welcome(auth, cases, accounts, clock, self.refusals)
        self.is_draining = False
        self._all: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._all)

    def new_socket(self) -> Socket:
        """For one upgrade: a socket with its connection behind it."""
        connection = Connection(self, self._dispatch, self._encoder, self._clock)
        return Socket(connection, self._flusher, self._clock)

    # --- what a connection asks ---

    def opened(self, connection: Connection) -> None:
        self._all.add(connection)
        self._on_count(len(self._all))

    def lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._on_count(len(self._all))

    def leave(self, connection: Connection) -> None:
        self._cases.hub.detach(connection)
        if self._cases.registry is not None:
            self._cases.registry.release(connection)
        if self._cases.signals is not None:
            self._cases.signals.went(connection)
        if self._cases.notify is not None:
            self._cases.notify.left(connection.user_id, connection.device)
        self._cases.sends.forget(connection.connection_id)

    async def welcome(self, connection: Connection, frame: protocol.Connect) -> None:
        await self._welcome.carry_out(connection, frame)

    async def refresh(self, connection: Connection, token: str) -> None:
        try:
            identity = await self._auth.identify(token)
            if identity.user_id != connection.user_id:
                raise Unauthorized()
        except Unauthorized:
            self.refusals.sign_in_failed("ws")
            raise
        self._cases.limiter.know(identity.user_id, identity.role)
        connection.keep(identity)

    def run(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=f"gateway-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- what the node asks ---

    def revoke(self, user_id: str) -> None:
        """Every token of the user made before now is refused: so is what they opened, on every node."""
        self._auth.forget_user(user_id)
        if self._cases.router is not None:
            self._cases.router.close(user_id, Close.REVOKED)
            return
        for outbound in list(self._cases.hub.of_user(user_id)):
            outbound.close(Close.REVOKED)

    def forget_user(self, user_id: str) -> None:
        """Another node says that the account was changed."""
        self._auth.forget_user(user_id)

    async def recheck(self, user_id: str) -> None:
        """The word of a revocation may have passed this node by. Raises StoreError."""
        since_ms = await self._auth.valid_after_ms(user_id)
        for one in list(self._cases.hub.of_user(user_id)):
            if isinstance(one, Connection) and one.issued_ms < since_ms:  # also who is about to be welcome
                one.close(Close.REVOKED)

    async def drain(self, spread_ms: int) -> None:
        """Tells everyone when to come back, finishes what is under way, then closes."""
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

    def sweep(self) -> None:
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        queued_bytes = 0
        for connection in list(self._all):
            connection.sweep(now_s, now_ms)
            if connection.socket is not None:
                queued_bytes += connection.socket.queued_bytes()
        if queued_bytes > NODE_QUEUE_BYTES_MAX:
            self._close_largest(queued_bytes - NODE_QUEUE_BYTES_MAX)

    def _close_largest(self, excess_bytes: int) -> None:
        """All queues together are too large: the slowest readers resume later."""
        sized = [(one.socket.queued_bytes(), one) for one in self._all if one.socket is not None]
        for size, connection in sorted(sized, key=lambda pair: pair[0], reverse=True):
            if excess_bytes <= 0:
                return
            connection.close(Close.SLOW)
            excess_bytes -= size


async def _wait_until(is_done: Callable[[], bool], most_s: float) -> None:
    for _ in range(round(most_s / POLL_S)):
        if is_done():
            return
        await asyncio.sleep(POLL_S)
