"""Carries a `connect` out: verify, admit, attach, count, hello, then what was missed.

A connect is answered whole or not at all: whatever fails before hello closes the socket, with 4004 when trying again
may help. The connection is attached and announced before anything is read for it, and its live events wait until what
was missed has been said: none falls between the two. connections.py is the caller.
"""

from __future__ import annotations

import asyncio

from tidings import __version__
from tidings.bounds import CONNECTS_MAX, HANDSHAKE_S, PING_INTERVAL_S, RESUMES_SLOW_MAX
from tidings.clock import Clock
from tidings.errors import Close, Problem, RateLimited, StoreUnavailable, TooLarge, Unauthorized
from tidings.gateway import protocol
from tidings.gateway.auth import Auth, Identity
from tidings.gateway.connection import Connection
from tidings.gateway.dispatch import log, problem_of
from tidings.gateway.frames import Hello, encode_frame
from tidings.gateway.refusals import Refusals
from tidings.gateway.turns import Turns
from tidings.gateway.usecases import UseCases
from tidings.model import Totals
from tidings.stores.ports import Accounts

PROTOCOL_VERSION = 1


class Welcome:
    def __init__(
        self, auth: Auth, cases: UseCases, accounts: Accounts, clock: Clock, refusals: Refusals | None = None
    ) -> None:
        self._refusals = refusals or Refusals(cases.audit)
        self._auth = auth
        self._cases = cases
        self._accounts = accounts
        self._clock = clock
        self._store_epoch: str | None = None
        self._turns = Turns(CONNECTS_MAX, RESUMES_SLOW_MAX)

    async def carry_out(self, connection: Connection, frame: protocol.Connect) -> None:
        user_id = ""
        try:
            identity = await self._auth.identify(frame.token)
            user_id = identity.user_id
            async with self._turns.turn(), asyncio.timeout(HANDSHAKE_S):
                hello = await self._prepare(connection, frame, identity)
        except Exception as error:
            problem = StoreUnavailable() if isinstance(error, TimeoutError) else problem_of(error, self._clock)
            self._note(user_id, problem)
            connection.turn_away(frame.id, problem, _close_code(problem))
            return
        if not connection.is_attached:  # the client left meanwhile
            return
        if self._cases.signals is not None:
            self._cases.signals.came(connection)
        if self._cases.activity is not None:
            self._cases.activity.note(connection.user_id)
        is_resuming = bool(frame.resume) or frame.since is not None
        connection.greet(hello, self._catch_up(connection, frame) if is_resuming else None)

    def _note(self, user_id: str, problem: Problem) -> None:
        self._refusals.note(user_id, problem)
        if isinstance(problem, Unauthorized):
            self._refusals.sign_in_failed("ws")

    async def _prepare(self, connection: Connection, frame: protocol.Connect, identity: Identity) -> bytes:
        self._cases.limiter.know(identity.user_id, identity.role)
        await self._cases.limiter.admit("connect", identity.user_id)
        self._attach(connection, identity, frame.device)
        if self._cases.registry is not None:
            await self._cases.registry.claim(connection)
        hello = await self._hello(connection, frame)
        await self._auth.identify(frame.token)  # a revocation since then is seen, for the hub knows us now
        return hello

    def _attach(self, connection: Connection, identity: Identity, device: str | None) -> None:
        """Raises TooLarge when the user has too many. The hub closes an older connection of the same device."""
        if connection.socket is None or connection.socket.is_closing:
            raise StoreUnavailable("the client left")
        connection.become(identity, device)
        if not self._cases.hub.attach(connection):
            raise TooLarge("too many connections of this user")
        connection.is_attached = True

    async def _hello(self, connection: Connection, frame: protocol.Connect) -> bytes:
        if self._store_epoch is None:
            self._store_epoch = await self._accounts.store_epoch()
        totals: Totals = await self._cases.unread.totals(connection.user_id)
        return encode_frame(
            Hello(
                id=frame.id,
                protocol=PROTOCOL_VERSION,
                user_id=connection.user_id,
                connection_id=connection.connection_id,
                server_time=self._clock.now_ms(),
                server_version=__version__,
                store_epoch=self._store_epoch,
                ping_interval_ms=PING_INTERVAL_S * 1000,
                total_unread=totals.total_unread,
                unread_conversations=totals.unread_conversations,
            )
        )

    async def _catch_up(self, connection: Connection, frame: protocol.Connect) -> None:
        """A resume that fails ends the connection: a gap is never left unsaid."""
        try:
            async with self._turns.turn() as turn:
                await self._cases.resume.catch_up(connection, frame.resume, frame.since, turn)
        except Exception as error:
            problem_of(error, self._clock)
            log.warning("resume_failed", error=type(error).__name__)
            connection.close(Close.SERVER_ERROR)
        else:
            connection.go_live()


def _close_code(problem: Problem) -> Close:
    if isinstance(problem, Unauthorized):
        return Close.BAD_TOKEN
    if isinstance(problem, RateLimited):
        return Close.TOO_MANY_REQUESTS
    if isinstance(problem, TooLarge):
        return Close.TOO_MANY_CONNECTIONS
    return Close.SERVER_ERROR
