"""Late counts: pushes unread counts that could not go with their entry, because they were cold or came before others.

A cold member is rebuilt off the path of the acknowledgement, once per user and conversation at a time. So a member
whose rebuild is slow or fails holds up nobody. Counts that a store refuses are pushed later: no other event has them.
However many members are cold, LATE_COUNTS_MAX of them are under way at a time, and the others wait without a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from tidings.bounds import COUNT_RESYNC_S
from tidings.errors import Problem, StoreError
from tidings.messaging.access import Access, MemberList
from tidings.messaging.deliver.count_resync import Counted
from tidings.messaging.deliver.sequencer import Sequencer
from tidings.messaging.unread.bounds import COUNTS_COMPARED_MAX, COUNTS_PAUSE_S, LATE_COUNTS_MAX
from tidings.model import ReadState
from tidings.pushes import ReadSynced
from tidings.routing.hub import Hub
from tidings.routing.router import Router
from tidings.stores.keyspace.scripts.answers import Indexed
from tidings.tasks import KeyedWork

log = logging.getLogger("tidings.deliver")
Spawn = Callable[[object, Coroutine[Any, Any, None]], asyncio.Task[None]]
PushBack = Callable[[str, str], Coroutine[Any, Any, None]]
Key = tuple[str, str]  # a member and a conversation
_TOGETHER = 100  # members whose counts are read in one round trip: a few milliseconds of the node and of the server


class CountedTogether(Counted, Protocol):
    async def states(self, user_ids: Sequence[str], conversation_id: str) -> Mapping[str, ReadState]:
        """The same of many members of a conversation, without those for whom it takes a rebuild or the log."""
        ...


class LateCounts:
    """`spawn` starts a task that ends with the part that delivers; `push_back` pushes a row that is back."""

    def __init__(
        self, hub: Hub, access: Access, unread: CountedTogether, router: Router, spawn: Spawn, push_back: PushBack
    ) -> None:
        self._hub = hub
        self._access = access
        self._unread = unread
        self._router = router
        self._spawn = spawn
        self._push_back = push_back
        self._syncing: set[Key] = set()
        self._cold = KeyedWork[Key](LATE_COUNTS_MAX, self._sync, self._start)
        self._alone = KeyedWork[Key](LATE_COUNTS_MAX, self._push_alone, self._start)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._spawn(object(), work)

    def push_again(self, sequencer: Sequencer, conversation_id: str) -> asyncio.Task[None]:
        """Push the counts again: entries read from the log came without, and others were counted before them."""
        return self._spawn(object(), self._push_counts(sequencer, conversation_id))

    async def _push_counts(self, sequencer: Sequencer, conversation_id: str) -> None:
        is_failing = False
        try:
            while sequencer.is_miscounted:
                sequencer.is_miscounted, is_pausing = False, True
                try:
                    is_pausing = await self._push_here(conversation_id)
                except StoreError as error:
                    if not is_failing:
                        log.info("counts wait", extra={"conversation_id": conversation_id, "cause": str(error)})
                    is_failing = sequencer.is_miscounted = True  # no other event brings them
                if is_pausing:
                    await asyncio.sleep(COUNTS_PAUSE_S)  # posts that come meanwhile share the next counts
        except Problem as error:
            log.info("counts were not pushed", extra={"conversation_id": conversation_id, "cause": str(error)})
        finally:
            sequencer.counting = None

    async def _push_here(self, conversation_id: str) -> bool:
        """Push the counts of all members who are connected here. True: the next ones wait, as it is large."""
        member_list = self._access.cached(conversation_id)
        if member_list is None:  # it had to make room for others
            member_list = await self._access.load(conversation_id)
        if member_list is None:
            return False
        here = list(self._hub.present(member_list.members))
        for start in range(0, len(here), _TOGETHER):
            await self._push_some(here[start : start + _TOGETHER], conversation_id)
        return member_list.head.large_ms > 0

    async def _push_some(self, user_ids: Sequence[str], conversation_id: str) -> None:
        states = await self._unread.states(user_ids, conversation_id)
        for user_id, state in states.items():  # at once: counts that wait could come after newer ones
            self._hub.push(user_id, ReadSynced(state))
        for user_id in user_ids:
            key = (user_id, conversation_id)
            if user_id not in states or key in self._alone:
                self._alone.add(key)  # also where older counts are under way: the last ones must be the newest

    async def _push_alone(self, key: Key) -> None:
        """Push the counts of a member who takes a rebuild, or the log. Entries that come meanwhile share the next."""
        user_id, conversation_id = key
        try:
            self._hub.push(user_id, ReadSynced(await self._unread.state(user_id, conversation_id)))
        except StoreError as error:
            log.info("counts stay cold", extra={"user_id": user_id, "cause": str(error)})
            await asyncio.sleep(COUNTS_PAUSE_S)
            if self._hub.of_user(user_id):
                self._alone.add(key)  # no other event brings them
        except Problem as error:  # the member has left meanwhile
            log.debug("counts were not pushed", extra={"user_id": user_id, "cause": str(error)})

    def warm_cold(self, member_list: MemberList, indexed: Mapping[str, Indexed]) -> None:
        """Rebuild the counts of members who are connected and were cold when an entry was indexed."""
        for user_id, one in indexed.items():
            if not (one.leases or self._hub.of_user(user_id)):
                continue
            if one.is_cold or one.total_unread is None:
                # Not cold, and no total: the user has large conversations, which are counted apart.
                wait_s = 0.0 if one.is_cold else COUNTS_PAUSE_S
                self.sync_soon(user_id, member_list.head.conversation_id, wait_s)
                if one.is_back:
                    self._spawn(object(), self._push_back(user_id, member_list.head.conversation_id))
            for thread_seq, counts in (one.threads or {}).items():
                if None in counts:
                    self.sync_soon(user_id, f"{member_list.head.conversation_id}/{thread_seq}")

    def sync_soon(self, user_id: str, conversation_id: str, wait_s: float = 0.0) -> None:
        """Push the counts of a member. Entries that come within `wait_s` share them."""
        key = (user_id, conversation_id)
        if key in self._cold or key in self._syncing:
            return
        if wait_s:
            self._syncing.add(key)
            self._spawn(object(), self._sync_after(key, wait_s))
        else:
            self._cold.add(key)

    async def _sync_after(self, key: Key, wait_s: float) -> None:
        try:
            await asyncio.sleep(wait_s)
            self._syncing.discard(key)  # an entry from here on is counted once more
            state = await self._unread.state(*key)
            self._router.push(key[0], ReadSynced(state))
        except (Problem, StoreError) as error:
            log.info("counts stay cold", extra={"user_id": key[0], "cause": str(error)})
        finally:
            self._syncing.discard(key)

    async def _sync(self, key: Key) -> None:
        """Rebuild the counts of a connected member, off the path of the acknowledgement."""
        try:
            await self._push_until_still(*key)
        except (Problem, StoreError) as error:
            log.info("counts stay cold", extra={"user_id": key[0], "cause": str(error)})

    async def _push_until_still(self, user_id: str, conversation_id: str) -> None:
        """Push the counts, and push them again if they changed: an entry that was indexed while they were read may have
        gone out first, with newer ones. In a busy conversation they change all the time, and each entry brings its own
        counts, so this ends after a few comparisons and leaves its place to the next member."""
        pushed: ReadState | None = None
        for _ in range(COUNTS_COMPARED_MAX):
            if (state := await self._unread.state(user_id, conversation_id)) == pushed:
                return
            self._router.push(user_id, ReadSynced(state))
            pushed = state
            await asyncio.sleep(COUNT_RESYNC_S)
