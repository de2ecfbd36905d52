"""Counts that cross on their way to a device are told once more.

Two nodes that index or mark for the same user at the same time each tell what they saw, and the older word may arrive
last: it would stay on the screen until something else happens. So where counts of two nodes come within CROSSING_S of
each other, the user's devices here get one `read.synced` of each conversation concerned a moment later. What one node
tells comes in its order and costs nothing. Told by deliver.py, unread.py and tending.py.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple, Protocol

from tidings.bounds import CROSSING_CONVERSATIONS_MAX, CROSSING_S, CROSSING_USERS_MAX
from tidings.clock import Clock
from tidings.errors import Problem, StoreError
from tidings.model import ReadState, ReadSynced
from tidings.routing.hub import Hub

log = logging.getLogger("tidings.crossings")


class Counted(Protocol):
    async def state(self, user_id: str, conversation_id: str) -> ReadState: ...


class _Told(NamedTuple):
    node_id: str
    conversation_id: str
    at_s: float


class Crossings:
    def __init__(self, hub: Hub, unread: Counted, clock: Clock) -> None:
        self._hub = hub
        self._unread = unread
        self._clock = clock
        self._last: dict[str, _Told] = {}  # user -> who told counts last
        self._doubtful: dict[str, set[str]] = {}  # user -> conversations to tell again
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def told(self, user_id: str, conversation_id: str, node_id: str) -> None:
        """A node's counts of a conversation went to the user's devices here."""
        now_s = self._clock.monotonic_s()
        last = self._last.get(user_id)
        if last is None and len(self._last) >= CROSSING_USERS_MAX:
            self._last = {one: told for one, told in self._last.items() if now_s - told.at_s < CROSSING_S}
        self._last[user_id] = _Told(node_id, conversation_id, now_s)
        if user_id in self._doubtful:
            if len(self._doubtful[user_id]) < CROSSING_CONVERSATIONS_MAX:
                self._doubtful[user_id].add(conversation_id)
        elif last is not None and last.node_id != node_id and now_s - last.at_s < CROSSING_S:
            self._doubtful[user_id] = {last.conversation_id, conversation_id}
            tell = self._tell_again(user_id)
            self._tasks[user_id] = asyncio.get_running_loop().create_task(tell, name="crossing")

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell_again(self, user_id: str) -> None:
        try:
            await asyncio.sleep(CROSSING_S)
            for conversation_id in self._doubtful.pop(user_id):
                if self._hub.of_user(user_id):
                    self._hub.push(user_id, ReadSynced(await self._unread.state(user_id, conversation_id)))
        except (StoreError, Problem) as error:
            log.info("counts come with the next entry: %s", error)
        finally:
            if self._tasks.get(user_id) is asyncio.current_task():  # else counts crossed again, and another task tells
                self._doubtful.pop(user_id, None)
                del self._tasks[user_id]
