"""Stage: route. What was acknowledged goes to the members' devices, on every node, in the order of the log.

The nodes to tell come with the index call (leases); each gets one publish per turn. On the receiving side, and for our
own sockets alike, a conversation is a `Stream`: entries go out in the order of their numbers, an entry that is not the
next waits GAP_WAIT_S, then what lies between is read from the log. So a lost publish, a race of two nodes or an open
slot never makes a device skip or repeat an entry. Local sockets come from the hub, never from leases.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from tidings.bounds import CONVERSATIONS_CACHED_MAX, GAP_AGAIN_S, GAP_WAIT_S, PAGE_MAX
from tidings.clock import Clock
from tidings.errors import Problem, StoreError
from tidings.messaging.access import Access, Roster
from tidings.messaging.inbox import Inbox
from tidings.messaging.slots import Slots
from tidings.messaging.unread import Unread
from tidings.model import ConversationAdded, ConversationRemoved, Entry, MessageNew, ReadSynced
from tidings.routing.bus import Bus, Counts, Delivery
from tidings.routing.hub import Hub
from tidings.routing.router import Router
from tidings.stores.scripts import Indexed

log = logging.getLogger("tidings.deliver")
_YOUNG_MS = 5_000  # at first sight of a conversation, entries this young may still be on their way to us
_UNKNOWN: Counts = (None, False, None)


def _counts(one: Indexed) -> Counts:
    return one.unread_count, one.unread_capped, one.total_unread


class Stream:
    """One conversation's entries on their way to the sockets of this node."""

    __slots__ = ("filling", "held", "last")

    def __init__(self) -> None:
        self.last: int | None = None  # the highest number that went out; None: nothing yet
        self.held: dict[int, tuple[Entry, Mapping[str, Counts], str | None]] = {}
        self.filling: asyncio.Task[None] | None = None


class Deliver:
    def __init__(
        self,
        *,
        hub: Hub,
        access: Access,
        slots: Slots,
        inbox: Inbox,
        unread: Unread,
        router: Router,
        bus: Bus,
        clock: Clock,
        node_id: str,
        has_others: Callable[[], bool],
        count_deliveries: Callable[[int], None],
    ) -> None:
        self._hub = hub
        self._access = access
        self._slots = slots
        self._inbox = inbox
        self._unread = unread
        self._router = router
        self._bus = bus
        self._clock = clock
        self._node_id = node_id
        self._has_others = has_others
        self._count_deliveries = count_deliveries
        self._streams: dict[str, Stream] = {}
        self._tasks: dict[object, asyncio.Task[None]] = {}

    # --- in -----------------------------------------------------------------------------------------

    async def route(
        self,
        roster: Roster,
        entries: Sequence[Entry],
        indexed: Mapping[str, Indexed],
        origins: Mapping[int, str | None],
    ) -> None:
        """From the lane. `origins`: seq_no -> the connection that sent it and got its `ok` instead."""
        self._tell_nodes(roster, entries, indexed)
        counts = {user_id: _counts(indexed[user_id]) for user_id in self._hub.present(indexed)}
        self.accept(roster, entries, counts, origins)
        self._warm_cold(roster, indexed)
        for entry in entries:
            if entry.member is not None:
                await self._tell_members(roster, entry)

    def take(self, delivery: Delivery) -> None:
        """From another node. Our member list may be older than what it tells of."""
        roster = self._access.cached(delivery.conversation_id)
        if roster is not None and roster.members_seq >= delivery.members_seq:
            self.accept(roster, delivery.entries, delivery.counts, {})
        else:
            self._spawn(object(), self._take_later(delivery))

    def accept(
        self,
        roster: Roster,
        entries: Iterable[Entry],
        counts: Mapping[str, Counts],
        origins: Mapping[int, str | None],
    ) -> None:
        """Push what is next; hold what is not."""
        stream = self._stream(roster.head.conversation_id)
        for entry in entries:
            if stream.last is None or entry.seq_no > stream.last:
                stream.held[entry.seq_no] = (entry, counts, origins.get(entry.seq_no))
        if not stream.held:
            return
        if stream.last is None and not self._has_others():
            stream.last = min(stream.held) - 1  # alone, entries come in order from their one lane
        self._advance(stream, roster)
        if stream.held and stream.filling is None:
            stream.filling = self._spawn(object(), self._fill(stream, roster.head.conversation_id))

    async def refresh(self, user_id: str, since_ms: int) -> None:
        """Entries may have passed by this user's sockets since then: read what changed."""
        for conversation_id in await self._inbox.changed(user_id, since_ms):
            roster = await self._access.fresh(conversation_id)
            if roster is None or user_id not in roster.members:
                continue
            stream = self._stream(conversation_id)
            if stream.last is None:
                recent = await self._slots.before(conversation_id, 1 << 53, PAGE_MAX)
                missed = [entry for entry in recent[::-1] if entry.sent_ms >= since_ms]
            else:
                missed = await self._slots.after(conversation_id, stream.last, PAGE_MAX)
            self.accept(roster, missed, {}, {})

    # --- in order -----------------------------------------------------------------------------------

    def _stream(self, conversation_id: str) -> Stream:
        stream = self._streams.get(conversation_id)
        if stream is None:
            if len(self._streams) >= CONVERSATIONS_CACHED_MAX:
                del self._streams[next(iter(self._streams))]
            stream = self._streams[conversation_id] = Stream()
        return stream

    def _advance(self, stream: Stream, roster: Roster) -> None:
        if stream.last is None:
            return
        ready = []
        while (held := stream.held.pop(stream.last + 1, None)) is not None:
            ready.append(held)
            stream.last += 1
        for seq_no in [seq_no for seq_no in stream.held if seq_no <= stream.last]:
            del stream.held[seq_no]
        if ready:
            self._push(roster, ready)

    async def _fill(self, stream: Stream, conversation_id: str) -> None:
        """Close the gap below what is held, from the log."""
        try:
            await asyncio.sleep(GAP_WAIT_S)
            while stream.held:
                roster = await self._access.fresh(conversation_id)
                if roster is None:
                    stream.held.clear()
                    return
                await self._read_gap(stream, conversation_id)
                self._advance(stream, roster)
                if stream.held:
                    await asyncio.sleep(GAP_AGAIN_S)
        except (StoreError, Problem) as error:
            log.info("a gap stays open until the next entry: %s", error)
        finally:
            stream.filling = None

    async def _read_gap(self, stream: Stream, conversation_id: str) -> None:
        lowest = min(stream.held)
        if stream.last is None:
            young_ms = self._clock.now_ms() - _YOUNG_MS
            below = await self._slots.before(conversation_id, lowest, PAGE_MAX)
            young = [entry for entry in below if entry.sent_ms > young_ms]
            stream.last = (young[-1].seq_no if young else min(stream.held)) - 1
        else:
            young = await self._slots.after(conversation_id, stream.last, PAGE_MAX)
        for entry in young:
            stream.held.setdefault(entry.seq_no, (entry, {}, None))

    # --- out ----------------------------------------------------------------------------------------

    def _push(self, roster: Roster, ready: Sequence[tuple[Entry, Mapping[str, Counts], str | None]]) -> None:
        """Members without a connection here cost nothing: a channel may have a thousand of them."""
        pushed = 0
        is_limited = roster.head.history == "joined"
        last_counts = ready[-1][1]
        for user_id in self._hub.present(roster.members):
            outbounds = self._hub.of_user(user_id)
            start = roster.members[user_id].joined_seq if is_limited else 0
            for entry, counts, origin in ready:
                if entry.seq_no <= start:
                    continue
                event = MessageNew(entry, *counts.get(user_id, _UNKNOWN))
                for outbound in outbounds:
                    if outbound.connection_id != origin:
                        outbound.push(event)
                        pushed += 1
            if user_id not in last_counts:  # read from the log, or came after the index: the count follows
                self._sync_soon(user_id, roster.head.conversation_id)
        self._count_deliveries(pushed)

    def _tell_nodes(self, roster: Roster, entries: Sequence[Entry], indexed: Mapping[str, Indexed]) -> None:
        nodes: dict[str, dict[str, Counts]] = {}
        for user_id, one in indexed.items():
            for lease in one.leases:
                node_id = lease.partition(":")[0]
                if node_id != self._node_id:
                    nodes.setdefault(node_id, {})[user_id] = _counts(one)
        conversation_id = roster.head.conversation_id
        for node_id, theirs in nodes.items():
            self._bus.post(node_id, Delivery(conversation_id, roster.members_seq, tuple(entries), theirs))

    async def _take_later(self, delivery: Delivery) -> None:
        try:
            roster = await self._access.load(delivery.conversation_id)
        except StoreError as error:
            log.info("an entry comes with the next: %s", error)
            return
        if roster is not None:
            self.accept(roster, delivery.entries, delivery.counts, {})

    # --- counts that are COLD, and members who come and go -------------------------------------------

    def _warm_cold(self, roster: Roster, indexed: Mapping[str, Indexed]) -> None:
        for user_id, one in indexed.items():
            if (one.is_cold or one.total_unread is None) and (one.leases or self._hub.of_user(user_id)):
                self._sync_soon(user_id, roster.head.conversation_id)

    def _sync_soon(self, user_id: str, conversation_id: str) -> None:
        key = (user_id, conversation_id)
        if key not in self._tasks:
            self._spawn(key, self._sync(*key))

    async def _sync(self, user_id: str, conversation_id: str) -> None:
        """Rebuild what a connected member looks at, off the acknowledgement's path."""
        try:
            state = await self._unread.state(user_id, conversation_id)
        except (Problem, StoreError) as error:
            log.info("counts stay cold until somebody looks: %s", error)
            return
        self._router.push(user_id, ReadSynced(state))

    async def _tell_members(self, roster: Roster, entry: Entry) -> None:
        assert entry.member is not None
        conversation_id = roster.head.conversation_id
        for user_id in entry.member.user_ids:
            if user_id not in roster.members:
                self._router.push(user_id, ConversationRemoved(conversation_id))
            elif entry.member.action == "added":
                await self._tell_added(user_id, conversation_id)

    async def _tell_added(self, user_id: str, conversation_id: str) -> None:
        try:
            item = await self._inbox.item(user_id, conversation_id)
        except (Problem, StoreError) as error:
            log.info("a new conversation is seen with the next inbox page: %s", error)
            return
        self._router.push(user_id, ConversationAdded(item))

    def _spawn(self, key: object, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._tasks[key] = asyncio.get_running_loop().create_task(work, name="deliver")
        task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return task
