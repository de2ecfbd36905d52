"""Scrubber: count each connected user again from the tables, slowly, and rebuild an index that differs.

Counts that are wrong for a reason that nobody thought of stay wrong for minutes, not for ever. The scrubber visits one
user at a time and reads few rows a second. A difference counts only if it is the same one twice, with a pause between:
a send on its way differs once. Every repair is logged and counted in `tidings_repairs_total`, because a repair is a
defect that somebody should look for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from tidings import bounds
from tidings.messaging.unread.verify import Verify, Wrong
from tidings.model import ReadState
from tidings.pushes import ReadSynced
from tidings.routing.router import Router
from tidings.tasks import Loop

log = logging.getLogger("tidings.unread")


class Counted(Protocol):
    async def state(self, user_id: str, conversation_id: str) -> ReadState: ...


@dataclass(eq=False, repr=False)
class Scrubber:
    verify: Verify
    unread: Counted
    router: Router
    connected: Callable[[], Iterable[str]]
    count_repair: Callable[[str, int], None]

    def __post_init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._pause_s = float(bounds.SCRUB_EVERY_S)
        self.loop = Loop("scrub", lambda: self._pause_s, self.step)

    async def step(self) -> None:
        """Visit the next user. Between two rounds of all users, and after each user, the loop pauses."""
        self._pause_s = float(bounds.SCRUB_EVERY_S)
        if not self._waiting:
            self._waiting.extend(self.connected())
        if self._waiting:
            count = await self.visit(self._waiting.popleft())
            if self._waiting:
                self._pause_s = max(1, count % bounds.REBUILD_CHUNK) / bounds.SCRUB_ROWS_PER_S

    async def visit(self, user_id: str) -> int:
        """Compare one user, and repair what differs. Returns how many conversations the user has."""
        count, wrong = await self.verify.compare(user_id, _between_chunks)
        if wrong:
            await asyncio.sleep(bounds.SCRUB_AGAIN_S)
            _, again = await self.verify.compare(user_id, _between_chunks)
            if same := [one for one in again if one in wrong]:
                await self._repair(user_id, same)
        return count

    async def _repair(self, user_id: str, wrong: list[Wrong]) -> None:
        fields = {"user_id": user_id, "differences": len(wrong), "first": str(wrong[0])}
        log.warning("unread counts differed from the tables and were rebuilt", extra=fields)
        await self.verify.reset(user_id)
        self.count_repair("unread", 1)
        ids = list(dict.fromkeys(one.conversation_id for one in wrong if one.conversation_id))
        for conversation_id in ids[: bounds.COUNT_RESYNC_CONVERSATIONS_MAX]:
            self.router.push(user_id, ReadSynced(await self.unread.state(user_id, conversation_id)))


async def _between_chunks() -> None:
    await asyncio.sleep(bounds.REBUILD_BIG_CHUNK / bounds.SCRUB_ROWS_PER_S)
