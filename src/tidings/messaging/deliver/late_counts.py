"""Late counts: pushes unread counts that could not go with their entry, because they were cold or came before others.

A cold member is rebuilt off the path of the acknowledgement, once per user and conversation at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tidings.errors import Problem, StoreError
from tidings.messaging.access import Access, MemberList
from tidings.messaging.deliver.count_resync import Counted
from tidings.messaging.deliver.sequencer import Sequencer
from tidings.pushes import ReadSynced
from tidings.routing.hub import Hub
from tidings.routing.router import Router
from tidings.stores.keyspace.scripts.answers import Indexed

log = logging.getLogger("tidings.deliver")
Spawn = Callable[[object, Coroutine[Any, Any, None]], asyncio.Task[None]]
PushBack = Callable[[str, str], Coroutine[Any, Any, None]]
_TOGETHER = 50  # members whose counts are read at the same time


class LateCounts:
    """`spawn` starts a task that ends with the part that delivers; `push_back` pushes a row that is back."""

    def __init__(
        self, hub: Hub, access: Access, unread: Counted, router: Router, spawn: Spawn, push_back: PushBack
    ) -> None:
        self._hub = hub
        self._access = access
        self._unread = unread
        self._router = router
        self._spawn = spawn
        self._push_back = push_back
        self._syncing: set[tuple[str, str]] = set()

    def push_again(self, sequencer: Sequencer, conversation_id: str) -> asyncio.Task[None]:
        """Push the counts again: entries read from the log came without, and others were counted before them."""
        return self._spawn(object(), self._push_counts(sequencer, conversation_id))

    async def _push_counts(self, sequencer: Sequencer, conversation_id: str) -> None:
        try:
            while sequencer.is_miscounted:
                sequencer.is_miscounted = False
                member_list = self._access.cached(conversation_id)
                here = list(self._hub.present(member_list.members)) if member_list is not None else []
                for start in range(0, len(here), _TOGETHER):
                    await asyncio.gather(*(self._push_count(id_, conversation_id) for id_ in here[start:][:_TOGETHER]))
        except (Problem, StoreError) as error:
            log.info("counts were not pushed", extra={"conversation_id": conversation_id, "cause": str(error)})
        finally:
            sequencer.counting = None

    async def _push_count(self, user_id: str, conversation_id: str) -> None:
        self._hub.push(user_id, ReadSynced(await self._unread.state(user_id, conversation_id)))

    def warm_cold(self, member_list: MemberList, indexed: Mapping[str, Indexed]) -> None:
        """Rebuild the counts of members who are connected and were cold when an entry was indexed."""
        for user_id, one in indexed.items():
            if (one.is_cold or one.total_unread is None) and (one.leases or self._hub.of_user(user_id)):
                self.sync_soon(user_id, member_list.head.conversation_id)
                if one.is_back:
                    self._spawn(object(), self._push_back(user_id, member_list.head.conversation_id))
            for thread_seq, counts in (one.threads or {}).items():
                if None in counts:
                    self.sync_soon(user_id, f"{member_list.head.conversation_id}/{thread_seq}")

    def sync_soon(self, user_id: str, conversation_id: str) -> None:
        key = (user_id, conversation_id)
        if key not in self._syncing:
            self._syncing.add(key)
            self._spawn(object(), self._sync(*key))

    async def _sync(self, user_id: str, conversation_id: str) -> None:
        """Rebuild the counts of a connected member, off the path of the acknowledgement."""
        try:
            state = await self._unread.state(user_id, conversation_id)
        except (Problem, StoreError) as error:
            log.info("counts stay cold", extra={"user_id": user_id, "cause": str(error)})
        else:
            self._router.push(user_id, ReadSynced(state))
        finally:
            self._syncing.discard((user_id, conversation_id))
