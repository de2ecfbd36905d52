"""Announcements: the row of a new or renamed conversation, pushed to its members who are connected.

It runs in the background: a channel of a thousand members is created and renamed in a few round trips, whoever is
connected. Nobody's inbox is rebuilt for it. An announcement that a store holds up is dropped, because the next inbox
page shows the row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidings.bounds import ANNOUNCEMENTS_MAX
from tidings.errors import Problem, StoreError
from tidings.messaging.reading.inbox import Inbox
from tidings.pushes import ConversationAdded, ConversationUpdated
from tidings.routing.registry import Registry
from tidings.routing.router import Router
from tidings.tasks import TaskSet

_TOGETHER = 100  # members who are looked up in one round trip
Row = tuple[str, str]  # user_id, conversation_id
Kind = type[ConversationAdded] | type[ConversationUpdated]


class Announcements:
    def __init__(self, inbox: Inbox, registry: Registry, router: Router) -> None:
        self._inbox = inbox
        self._registry = registry
        self._router = router
        self._tasks = TaskSet(ANNOUNCEMENTS_MAX)

    def announce(self, rows: Sequence[Row], kind: Kind) -> None:
        """Push these rows to their users who are connected. Never blocks."""
        here = [row for row in rows if self._router.may_reach(row[0])]
        if here:
            self._tasks.run(self._push_all(here, kind), "announce")

    async def close(self) -> None:
        await self._tasks.close()

    async def _push_all(self, rows: Sequence[Row], kind: Kind) -> None:
        for start in range(0, len(rows), _TOGETHER):
            some = rows[start : start + _TOGETHER]
            online = await self._registry.is_online(user_id for user_id, _ in some)
            await asyncio.gather(*(self._push(*row, kind) for row in some if online[row[0]]))

    async def _push(self, user_id: str, conversation_id: str, kind: Kind) -> None:
        try:
            item = await self._inbox.item(user_id, conversation_id)
        except (StoreError, Problem):
            return  # the next inbox page shows it; or the user has left meanwhile
        if not item.row.is_hidden or item.row.last_seq > item.row.hidden_seq:
            self._router.push(user_id, kind(item))
