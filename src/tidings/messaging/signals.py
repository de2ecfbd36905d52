"""Typing and presence behind one door: what the gateway calls, what the bus brings, what a node does while it watches.

All of it is true for a moment, never stored and never promised: where a store does not answer it is dropped, and
nothing of it runs inside a send. dispatch.py calls `typing` and `watch`, whoever attaches and detaches connections
`came` and `went`, the receiver of the bus `take`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidings.bounds import WATCH_RENEW_S
from tidings.errors import Problem, StoreError
from tidings.messaging.errands import Errands, log
from tidings.messaging.presence import Presences
from tidings.messaging.typists import Typists
from tidings.messaging.watching import Watching
from tidings.model import Presence, Typing
from tidings.routing.bus import Signal
from tidings.routing.hub import Outbound


class Signals:
    def __init__(
        self,
        watching: Watching,
        typists: Typists,
        presences: Presences,
        errands: Errands,
        *,
        renew_s: float = WATCH_RENEW_S,
    ) -> None:
        self._watching = watching
        self._typists = typists
        self._presences = presences
        self._errands = errands
        self._renew_s = renew_s
        self._is_renewing = False

    async def typing(self, user_id: str, conversation_id: str, is_typing: bool, origin: str) -> None:
        """NotFound for strangers. All connections of the typist are left out, not only `origin`."""
        try:
            await self._typists.typing(user_id, conversation_id, is_typing)
        except StoreError as error:
            log.debug("typing was dropped: %s", error)

    async def watch(self, outbound: Outbound, conversation_ids: Sequence[str]) -> None:
        """Replaces the older watch, and shows how the others stand. NotFound, and nothing changes, for strangers."""
        rosters = await self._watching.watch(outbound, conversation_ids)
        if not rosters:
            return
        if not self._is_renewing:
            self._is_renewing = self._errands.run(self._renew(), "watch")
        try:
            await self._watching.announce(roster.head.conversation_id for roster in rosters)
            await self._presences.show(outbound, rosters)
        except StoreError as error:
            log.debug("presence was not shown: %s", error)

    async def presence(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[Presence]:
        """Of people who share the conversation with the caller; nobody named: of all of them. Raises StoreError."""
        return await self._presences.of_members(user_id, conversation_id, user_ids)

    def came(self, outbound: Outbound) -> None:
        """Attached, its lease claimed and its inbox built: whom it concerns is looked up there."""
        self._presences.came(outbound)

    def went(self, outbound: Outbound) -> None:
        """Detached, and its lease released."""
        self.forget(outbound)
        self._presences.went(outbound)

    def forget(self, outbound: Outbound) -> None:
        """It watches nothing any more."""
        self._watching.forget(outbound)

    def take(self, item: Signal) -> None:
        """What another node has for watchers here. Never blocks."""
        if isinstance(item.event, Typing):
            self._typists.heard(item.event)
        self._errands.run(self._tell(item), "signal")

    async def close(self) -> None:
        """After the last connection went, while the keyspace is still open."""
        self._typists.close()
        try:
            await self._presences.close()
        except StoreError as error:
            log.debug("last_seen was not written: %s", error)
        await self._errands.close()

    async def _tell(self, item: Signal) -> None:
        if isinstance(item.event, Presence):
            await self._presences.tell(item.conversation_ids, item.event)
        else:
            await self._typists.tell_heard(item.conversation_ids, item.event)

    async def _renew(self) -> None:
        """While anybody watches here."""
        try:
            while len(self._watching):
                await asyncio.sleep(self._renew_s)
                try:
                    await self._watching.renew()
                    await self._presences.compare()
                except (StoreError, Problem) as error:
                    log.debug("watching waits for the stores: %s", error)
        finally:
            self._is_renewing = False
