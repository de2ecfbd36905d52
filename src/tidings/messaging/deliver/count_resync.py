"""Count resync: counts that cross on their way to a device are pushed once more.

Two nodes that index or mark for the same user at the same time each push the counts that they saw. The older counts may
arrive last, and would stay on the screen until something else happens. So where counts of two nodes come within
COUNT_RESYNC_S of each other, the devices here get one `read.synced` of each conversation concerned a moment later.
Counts of a single node come in its order and cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple, Protocol

from tidings.bounds import COUNT_RESYNC_CONVERSATIONS_MAX, COUNT_RESYNC_S, COUNT_RESYNC_USERS_MAX
from tidings.clock import Clock
from tidings.errors import Problem, StoreError
from tidings.model import ReadState
from tidings.pushes import ReadSynced
from tidings.routing.hub import Hub
from tidings.tasks import cancel

log = logging.getLogger("tidings.count_resync")


class Counted(Protocol):
    async def state(self, user_id: str, conversation_id: str) -> ReadState: ...


class _Pushed(NamedTuple):
    node_id: str
    conversation_id: str
    at_s: float


class CountResync:
    def __init__(self, hub: Hub, unread: Counted, clock: Clock) -> None:
        self._hub = hub
        self._unread = unread
        self._clock = clock
        self._last: dict[str, _Pushed] = {}  # user -> the node that pushed counts last
        self._doubtful: dict[str, set[str]] = {}  # user -> conversations to push again
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def record(self, user_id: str, conversation_id: str, node_id: str) -> None:
        """Record that a node's counts of a conversation went to the user's devices here."""
        now_s = self._clock.monotonic_s()
        last = self._last.get(user_id)
        if last is None and len(self._last) >= COUNT_RESYNC_USERS_MAX:
            self._last = {one: pushed for one, pushed in self._last.items() if now_s - pushed.at_s < COUNT_RESYNC_S}
        self._last[user_id] = _Pushed(node_id, conversation_id, now_s)
        if user_id in self._doubtful:
            if len(self._doubtful[user_id]) < COUNT_RESYNC_CONVERSATIONS_MAX:
                self._doubtful[user_id].add(conversation_id)
        elif last is not None and last.node_id != node_id and now_s - last.at_s < COUNT_RESYNC_S:
            self._doubtful[user_id] = {last.conversation_id, conversation_id}
            again = self._push_again(user_id)
            self._tasks[user_id] = asyncio.get_running_loop().create_task(again, name="count resync")

    async def close(self) -> None:
        await cancel(*self._tasks.values())

    async def _push_again(self, user_id: str) -> None:
        try:
            await asyncio.sleep(COUNT_RESYNC_S)
            for conversation_id in self._doubtful.pop(user_id):
                if self._hub.of_user(user_id):
                    self._hub.push(user_id, ReadSynced(await self._unread.state(user_id, conversation_id)))
        except (StoreError, Problem) as error:
            log.info("count resync failed", extra={"user_id": user_id, "cause": str(error)})
        finally:
            if self._tasks.get(user_id) is asyncio.current_task():  # otherwise another task took over
                self._doubtful.pop(user_id, None)
                del self._tasks[user_id]
