"""Typing: pushed to the members who watch the conversation; it ends by itself without renewal.

The node of the typist keeps the time: without renewal in TYPING_S it pushes the end itself, so a client that vanished
does not type for ever. Nodes that it published to keep the time too, a little longer, because the typist's node may be
gone before it publishes the end. Nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tidings.bounds import TYPING_AGAIN_S, TYPING_S, TYPISTS_MAX
from tidings.clock import Clock
from tidings.messaging.access import Access, MemberList
from tidings.messaging.presence.watchers import Watchers
from tidings.pushes import Typing
from tidings.tasks import TaskSet

Key = tuple[str, str]  # user_id, conversation_id


class _Typist:
    __slots__ = ("ends", "pushed_s")

    def __init__(self, pushed_s: float, ends: asyncio.TimerHandle) -> None:
        self.pushed_s = pushed_s
        self.ends = ends


class TypingStatus:
    def __init__(
        self, access: Access, watchers: Watchers, tasks: TaskSet, clock: Clock, *, typing_s: float = TYPING_S
    ) -> None:
        self._access = access
        self._watchers = watchers
        self._tasks = tasks
        self._clock = clock
        self._typing_s = typing_s
        self._typists: dict[Key, _Typist] = {}
        self._elsewhere: dict[Key, asyncio.TimerHandle] = {}  # people who type on other nodes -> when we end it

    async def typing(self, user_id: str, conversation_id: str, is_typing: bool) -> None:
        """Take a client's typing frame. Raises NotFound for strangers, and StoreError."""
        key = (user_id, conversation_id)
        if is_typing and self._is_pushed(key):
            self._keep(key, self._typists[key].pushed_s)
            return
        member_list = await self._access.authorize(user_id, conversation_id, "write")
        if is_typing:
            if key not in self._typists and len(self._typists) >= TYPISTS_MAX:
                return
            self._keep(key, self._clock.monotonic_s())
        elif not self._end(key):
            return
        await self._push(member_list, Typing(conversation_id, user_id, is_typing))

    def heard(self, event: Typing) -> None:
        """Take an event of another node. Renewals come once in TYPING_AGAIN_S, so we end the typing that much later."""
        key = (event.user_id, event.conversation_id)
        if (earlier := self._elsewhere.pop(key, None)) is not None:
            earlier.cancel()
        if event.typing and len(self._elsewhere) < TYPISTS_MAX:
            most_s = self._typing_s + TYPING_AGAIN_S
            self._elsewhere[key] = asyncio.get_running_loop().call_later(most_s, self._lapse, key)

    async def push_heard(self, conversation_ids: Iterable[str], event: Typing) -> None:
        """Push to watchers here, unless the typist has stopped meanwhile."""
        member_lists = await self._watchers.member_lists(conversation_ids)
        if not event.typing or (event.user_id, event.conversation_id) in self._elsewhere:
            await self._watchers.push(member_lists, event)

    def close(self) -> None:
        for ends in (*(typist.ends for typist in self._typists.values()), *self._elsewhere.values()):
            ends.cancel()
        self._typists.clear()
        self._elsewhere.clear()

    def __len__(self) -> int:
        return len(self._typists)

    def _is_pushed(self, key: Key) -> bool:
        typist = self._typists.get(key)
        return typist is not None and self._clock.monotonic_s() - typist.pushed_s < TYPING_AGAIN_S

    def _keep(self, key: Key, pushed_s: float) -> None:
        self._end(key)
        ends = asyncio.get_running_loop().call_later(self._typing_s, self._expire, key)
        self._typists[key] = _Typist(pushed_s, ends)

    def _end(self, key: Key) -> bool:
        typist = self._typists.pop(key, None)
        if typist is not None:
            typist.ends.cancel()
        return typist is not None

    def _expire(self, key: Key) -> None:
        if self._end(key):
            self._tasks.run(self._stopped(*key), "typing")

    def _lapse(self, key: Key) -> None:
        del self._elsewhere[key]
        if key not in self._typists:
            user_id, conversation_id = key
            self._tasks.run(self.push_heard([conversation_id], Typing(conversation_id, user_id, False)), "typing")

    async def _stopped(self, user_id: str, conversation_id: str) -> None:
        """Push the end, even where the typist has left the conversation since: the others still see them typing."""
        member_list = await self._access.fresh(conversation_id)
        if member_list is not None:
            await self._push(member_list, Typing(conversation_id, user_id, False))

    async def _push(self, member_list: MemberList, event: Typing) -> None:
        await self._watchers.push([member_list], event)
        self._watchers.publish(await self._watchers.nodes_of([event.conversation_id]), event)
