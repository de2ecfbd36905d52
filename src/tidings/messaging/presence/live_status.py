"""Live status: typing and presence behind one door, for the gateway, the bus and the heartbeat.

Live status is true for a moment, never stored and never promised. It is dropped where a store does not answer, and
nothing of it runs inside a send. `typing` and `watch` take frames, `came` and `went` follow the connections, and `take`
receives from the bus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from tidings.bounds import WATCH_RENEW_S
from tidings.errors import Problem, StoreError
from tidings.messaging.presence.presence import Presences
from tidings.messaging.presence.typing_status import TypingStatus
from tidings.messaging.presence.watchers import Watchers
from tidings.pushes import Presence, Typing
from tidings.routing.bus import Signal
from tidings.routing.hub import Connection
from tidings.tasks import TaskSet, log


@dataclass(eq=False, repr=False)
class LiveStatus:
    watchers: Watchers
    typing_status: TypingStatus
    presences: Presences
    tasks: TaskSet
    _: KW_ONLY
    renew_s: float = WATCH_RENEW_S

    def __post_init__(self) -> None:
        self._is_renewing = False

    async def typing(self, user_id: str, conversation_id: str, is_typing: bool, origin: str) -> None:
        """Take a typing frame. Raises NotFound for strangers. All connections of the typist are left out."""
        try:
            await self.typing_status.typing(user_id, conversation_id, is_typing)
        except StoreError as error:
            log.debug("typing was dropped", extra={"cause": str(error)})

    async def watch(self, connection: Connection, conversation_ids: Sequence[str]) -> None:
        """Replace the older watch, and push the presence of the others. NotFound changes nothing."""
        member_lists = await self.watchers.watch(connection, conversation_ids)
        if not member_lists:
            return
        if not self._is_renewing:
            self._is_renewing = self.tasks.run(self._renew(), "watch")
        try:
            await self.watchers.announce(member_list.head.conversation_id for member_list in member_lists)
            await self.presences.show(connection, member_lists)
        except StoreError as error:
            log.debug("presence was not shown", extra={"cause": str(error)})

    async def presence(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[Presence]:
        """Return the presence of members of a shared conversation; of all if none is named. Raises StoreError."""
        return await self.presences.of_members(user_id, conversation_id, user_ids)

    def came(self, connection: Connection) -> None:
        """Record an attached connection with a lease. Its inbox is built: the users it concerns are read there."""
        self.presences.came(connection)

    def went(self, connection: Connection) -> None:
        """Record a connection that is detached, its lease released."""
        self.forget(connection)
        self.presences.went(connection)

    def forget(self, connection: Connection) -> None:
        """Forget what the connection watches."""
        self.watchers.forget(connection)

    def take(self, item: Signal) -> None:
        """Take an event of another node for watchers here. Never blocks."""
        if isinstance(item.event, Typing):
            self.typing_status.heard(item.event)
        self.tasks.run(self._push(item), "signal")

    async def close(self) -> None:
        """Stop, after the last connection ended and while the keyspace is still open."""
        self.typing_status.close()
        try:
            await self.presences.close()
        except StoreError as error:
            log.debug("last_seen was not written", extra={"cause": str(error)})
        await self.tasks.close()

    async def _push(self, item: Signal) -> None:
        if isinstance(item.event, Presence):
            await self.presences.push(item.conversation_ids, item.event)
        else:
            await self.typing_status.push_heard(item.conversation_ids, item.event)

    async def _renew(self) -> None:
        """Renew the record of our watchers while there are any."""
        try:
            while len(self.watchers):
                await asyncio.sleep(self.renew_s)
                try:
                    await self.watchers.renew()
                    await self.presences.compare()
                except (StoreError, Problem) as error:
                    log.debug("record of watchers was not renewed", extra={"cause": str(error)})
        finally:
            self._is_renewing = False
