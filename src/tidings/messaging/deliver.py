"""Stage: route. What was acknowledged goes to the members' devices, in the order of the log.

Local sockets come from the hub. Per conversation the node keeps the last seq it has routed: an entry at or below it is
not pushed twice, and one that is not the next makes the node read what lies between from the log first. A member whose
counts are COLD gets the entry with null counts at once, and `read.synced` when they are rebuilt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from tidings.bounds import CONVERSATIONS_CACHED_MAX, PAGE_MAX
from tidings.errors import Problem, StoreError
from tidings.messaging.access import Roster
from tidings.messaging.inbox import Inbox
from tidings.messaging.slots import Slots
from tidings.messaging.unread import Unread
from tidings.model import ConversationAdded, ConversationRemoved, Entry, MessageNew, ReadSynced
from tidings.routing.hub import Hub
from tidings.stores.scripts import Indexed

log = logging.getLogger("tidings.deliver")
_GAP_MAX = 1_000  # entries read to close a gap; a client that missed more reads history


class Deliver:
    def __init__(
        self, hub: Hub, slots: Slots, inbox: Inbox, unread: Unread, count_deliveries: Callable[[int], None]
    ) -> None:
        self._hub = hub
        self._slots = slots
        self._inbox = inbox
        self._unread = unread
        self._count_deliveries = count_deliveries
        self._routed: dict[str, int] = {}
        self._warming: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def route(
        self,
        roster: Roster,
        entries: Sequence[Entry],
        indexed: Mapping[str, Indexed],
        origins: Mapping[int, str | None],
    ) -> None:
        """`origins`: seq_no -> the connection that sent it and got its `ok` instead."""
        conversation_id = roster.head.conversation_id
        last = self._routed.get(conversation_id)
        fresh = [entry for entry in entries if last is None or entry.seq_no > last]
        if not fresh:
            return
        if last is not None and fresh[0].seq_no > last + 1:
            fresh = await self._with_gap(conversation_id, last, fresh)
        self._remember(conversation_id, fresh[-1].seq_no)
        self._push(roster, fresh, indexed, origins)
        for entry in fresh:
            if entry.member is not None:
                await self._tell_members(roster, entry)

    async def _with_gap(self, conversation_id: str, last: int, fresh: list[Entry]) -> list[Entry]:
        """What another node stored in between comes first."""
        gap: list[Entry] = []
        while len(gap) < _GAP_MAX:
            found = await self._slots.after(conversation_id, last + len(gap), PAGE_MAX)
            gap += [entry for entry in found if entry.seq_no < fresh[0].seq_no]
            if len(found) < PAGE_MAX or found[-1].seq_no >= fresh[0].seq_no:
                break
        return gap + fresh

    def _remember(self, conversation_id: str, seq_no: int) -> None:
        if conversation_id not in self._routed and len(self._routed) >= CONVERSATIONS_CACHED_MAX:
            del self._routed[next(iter(self._routed))]
        self._routed[conversation_id] = seq_no

    def _push(
        self,
        roster: Roster,
        entries: Sequence[Entry],
        indexed: Mapping[str, Indexed],
        origins: Mapping[int, str | None],
    ) -> None:
        pushed = 0
        for user_id in roster.members:
            outbounds = self._hub.of_user(user_id)
            if not outbounds:
                continue
            counts = indexed.get(user_id)
            for entry in entries:
                event = _event(entry, counts)
                origin = origins.get(entry.seq_no)
                for outbound in outbounds:
                    if outbound.connection_id != origin:
                        outbound.push(event)
                        pushed += 1
            if counts is not None and (counts.is_cold or counts.total_unread is None):
                self._warm(user_id, roster.head.conversation_id)
        self._count_deliveries(pushed)

    def _warm(self, user_id: str, conversation_id: str) -> None:
        """Rebuild what a connected member looks at, off the acknowledgement's path."""
        key = (user_id, conversation_id)
        if key not in self._warming:
            task = asyncio.get_running_loop().create_task(self._sync(user_id, conversation_id), name="warm")
            self._warming[key] = task
            task.add_done_callback(lambda _: self._warming.pop(key, None))

    async def _sync(self, user_id: str, conversation_id: str) -> None:
        try:
            state = await self._unread.state(user_id, conversation_id)
        except (Problem, StoreError) as error:
            log.info("counts stay cold until somebody looks: %s", error)
            return
        self._hub.push(user_id, ReadSynced(state))

    async def _tell_members(self, roster: Roster, entry: Entry) -> None:
        assert entry.member is not None
        for user_id in entry.member.user_ids:
            if not self._hub.of_user(user_id):
                continue
            if user_id not in roster.members:
                self._hub.push(user_id, ConversationRemoved(roster.head.conversation_id))
            elif entry.member.action == "added":
                await self._tell_added(user_id, roster.head.conversation_id)

    async def _tell_added(self, user_id: str, conversation_id: str) -> None:
        try:
            self._hub.push(user_id, ConversationAdded(await self._inbox.item(user_id, conversation_id)))
        except (Problem, StoreError) as error:
            log.info("a new conversation is seen with the next inbox page: %s", error)


def _event(entry: Entry, counts: Indexed | None) -> MessageNew:
    if counts is None:
        return MessageNew(entry, None, False, None)
    return MessageNew(entry, counts.unread_count, counts.unread_capped, counts.total_unread)
