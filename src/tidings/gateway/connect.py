"""Connector: carries out a `connect` frame, a token refresh, and the end of a connection.

The steps of a connect: verify the token, ask the limiter, attach to the hub, claim the lease, count, say hello, replay
what was missed, go live. A connect is answered whole or not at all: a failure before hello closes the socket, with 4004
when trying again may help. Totals that a rebuild holds up are the exception: hello leaves them out after a second, and
`read.synced` brings them. The connection is attached and announced before anything is read for it, and its live events
wait in its gate until the replay is done. So no event falls between the two.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import UNSET

from tidings import __version__
from tidings.bounds import (
    CONNECTS_MAX,
    HANDSHAKE_S,
    HELLO_TOTALS_S,
    PING_INTERVAL_S,
    REFRESHES_FAILED_MAX,
    RESUMES_SLOW_MAX,
    TOTALS_AGAIN_S,
)
from tidings.clock import Clock
from tidings.errors import Close, Problem, RateLimited, StoreError, StoreUnavailable, TooLarge, Unauthorized, cause_of
from tidings.gateway.auth import Authenticator
from tidings.gateway.connection import Connection
from tidings.gateway.dispatch import UseCases, log, problem_of
from tidings.gateway.encode import encode_error, encode_frame, encode_ok
from tidings.gateway.fairness import Permits, Refusals
from tidings.gateway.tokens import Identity
from tidings.model import Totals
from tidings.protocol import client_frames as protocol
from tidings.protocol.server_frames import Hello
from tidings.pushes import TotalsSynced
from tidings.stores.tables.ports import Accounts

PROTOCOL_VERSION = 1


class Connector:
    def __init__(
        self, auth: Authenticator, cases: UseCases, accounts: Accounts, clock: Clock, refusals: Refusals
    ) -> None:
        self._refusals = refusals
        self._auth = auth
        self._cases = cases
        self._accounts = accounts
        self._clock = clock
        self._store_epoch: str | None = None
        self._permits = Permits(CONNECTS_MAX, RESUMES_SLOW_MAX)

    async def connect(self, connection: Connection, frame: protocol.Connect) -> None:
        user_id = ""
        try:
            identity = await self._auth.identify(frame.token)
            user_id = identity.user_id
            async with self._permits.permit(), asyncio.timeout(HANDSHAKE_S):
                totals = await self._prepare(connection, frame, identity)
                hello = await self._hello(connection, frame, totals)
        except Exception as error:
            problem = StoreUnavailable() if isinstance(error, TimeoutError) else problem_of(error, self._clock)
            self._record(user_id, problem)
            connection.turn_away(frame.id, problem, _close_code(problem))
            return
        if not connection.is_attached:  # the client left meanwhile
            return
        if totals is not None:
            self._cases.live_status.came(connection)
        self._cases.activity.note(connection.user_id)
        self._cases.people.signed_in(connection.user_id)
        is_resuming = bool(frame.resume) or frame.since is not None
        connection.greet(hello, is_resuming=is_resuming)
        if is_resuming:
            await self._catch_up(connection, frame, is_counted=totals is not None)
        if totals is None:
            await self._count_late(connection, frame)

    async def refresh(self, connection: Connection, frame: protocol.Refresh) -> bytes | None:
        """Take a newer token of the same user. Returns the answer's bytes; None when the client wants none.

        A client that fails again and again is closed, because each try costs the check of a signature."""
        try:
            await self._cases.limiter.admit("connect", connection.user_id)
            identity = await self._auth.identify(frame.token)
            if identity.user_id != connection.user_id:
                raise self._auth.refused("a token of another user", "claims")
        except Exception as error:
            problem = problem_of(error, self._clock)
            self._record(connection.user_id, problem)
            if isinstance(problem, Unauthorized):
                connection.failed_refreshes += 1
            if connection.failed_refreshes >= REFRESHES_FAILED_MAX:
                connection.close(Close.BAD_TOKEN)
            return encode_error(frame.id, problem) if frame.id is not None else None
        self._cases.limiter.know(identity.user_id, identity.role)
        connection.keep(identity)
        connection.failed_refreshes = 0
        return encode_ok(frame.id) if frame.id is not None else None

    def disconnect(self, connection: Connection) -> None:
        """Take an attached connection off the node."""
        self._cases.hub.detach(connection)
        self._cases.registry.release(connection)
        self._cases.live_status.went(connection)
        self._cases.notify.left(connection.user_id, connection.device)
        self._cases.sends.forget(connection.connection_id)

    def _record(self, user_id: str, problem: Problem) -> None:
        self._refusals.note(user_id, problem)
        if isinstance(problem, Unauthorized):
            self._refusals.sign_in_failed("ws")

    async def _prepare(self, connection: Connection, frame: protocol.Connect, identity: Identity) -> Totals | None:
        self._cases.limiter.know(identity.user_id, identity.role)
        await self._cases.limiter.admit("connect", identity.user_id)
        connection.become(identity, frame.device, self._cases.hub)
        found = await self._cases.registry.claim(connection, self._cases.unread.totals_calls(identity.user_id))
        totals = await self._totals(identity.user_id, found)
        # The hub knows the connection by now, so every later revocation closes it; this finds an earlier one.
        await self._auth.identify(frame.token)
        return totals

    async def _totals(self, user_id: str, found: list[Any]) -> Totals | None:
        """Return the totals. None: the inbox is being rebuilt, and that takes longer than a hello waits."""
        try:
            async with asyncio.timeout(HELLO_TOTALS_S):
                return await self._cases.unread.totals(user_id, found)
        except TimeoutError:
            return None

    async def _hello(self, connection: Connection, frame: protocol.Connect, totals: Totals | None) -> bytes:
        if self._store_epoch is None:
            self._store_epoch = await self._accounts.store_epoch()
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
                total_unread=totals.total_unread if totals is not None else None,
                unread_conversations=totals.unread_conversations if totals is not None else None,
                total_mentions=(totals.total_mentions if totals is not None else 0) or UNSET,
                unread_threads=(totals.unread_threads if totals is not None else 0) or UNSET,
            )
        )

    async def _catch_up(self, connection: Connection, frame: protocol.Connect, *, is_counted: bool) -> None:
        """Replay what was missed. A replay that fails closes the connection: a client never has a gap unawares.

        The conversations that the client did not name are found in the inbox, so they wait until it is rebuilt.
        """
        since = frame.since if is_counted else None
        try:
            async with self._permits.permit() as permit:
                await self._cases.resume.catch_up(connection, frame.resume, since, permit)
        except Exception as error:
            self._fail_resume(connection, error)
        else:
            connection.go_live()

    async def _count_late(self, connection: Connection, frame: protocol.Connect) -> None:
        """Push the totals that hello left out, and the changes that are found in the inbox, once it is rebuilt."""
        totals = await self._totals_late(connection)
        if totals is None or not connection.is_attached:
            return
        connection.push(TotalsSynced(totals))
        self._cases.live_status.came(connection)
        try:
            if frame.since is not None:
                await self._cases.resume.push_others(connection, frame.resume, frame.since)
        except Exception as error:
            self._fail_resume(connection, error)

    async def _totals_late(self, connection: Connection) -> Totals | None:
        """Return the totals, for as long as it takes. None: the client left meanwhile."""
        while connection.is_attached:
            try:
                return await self._cases.unread.totals(connection.user_id)
            except (StoreError, Problem) as error:
                log.info("totals wait", extra=cause_of(error, user_id=connection.user_id))
                await asyncio.sleep(TOTALS_AGAIN_S)
        return None

    def _fail_resume(self, connection: Connection, error: Exception) -> None:
        problem = problem_of(error, self._clock)
        log.warning("resume failed", extra={"user_id": connection.user_id, "cause": problem.code})
        connection.close(Close.SERVER_ERROR)


def _close_code(problem: Problem) -> Close:
    if isinstance(problem, Unauthorized):
        return Close.BAD_TOKEN
    if isinstance(problem, RateLimited):
        return Close.TOO_MANY_REQUESTS
    if isinstance(problem, TooLarge):
        return Close.TOO_MANY_CONNECTIONS
    return Close.SERVER_ERROR
