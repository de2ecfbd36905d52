"""Stage: route. Acknowledged entries go to the members' devices, on every node, in the order of the log.

The nodes to publish to come with the index call (leases); each gets one publish per batch. For entries of other nodes
and of our own lanes alike, a conversation has a `Sequencer`: entries go out in the order of their numbers. An entry
that is not next waits GAP_WAIT_S, then the entries between are read from the log. So a lost publish, a race of two
nodes or a gap never makes a device skip or repeat an entry. Local sockets come from the hub, never from leases.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from tidings.bounds import (
    CONVERSATIONS_CACHED_MAX,
    GAP_AGAIN_S,
    GAP_WAIT_S,
    PAGE_MAX,
    RESUME_ENTRIES_MAX,
    SEAM_S,
    STREAM_IDLE_S,
)
from tidings.clock import Clock
from tidings.errors import Problem, StoreError, cause_of
from tidings.messaging.access import Access, MemberList
from tidings.messaging.deliver.count_resync import CountResync
from tidings.messaging.deliver.fan_out import FanOut
from tidings.messaging.deliver.late_counts import CountedTogether, LateCounts
from tidings.messaging.deliver.leaving import last_entries, record
from tidings.messaging.deliver.membership_events import MembershipEvents
from tidings.messaging.deliver.sequencer import Held, Sequencer
from tidings.messaging.log import NEWEST, Log
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.reading.inbox import Inbox
from tidings.model import Entry
from tidings.routing.bus import Bus, Counts, Delivery
from tidings.routing.hub import Hub
from tidings.routing.registry import Registry
from tidings.routing.router import Router
from tidings.stores.keyspace.scripts.answers import Indexed
from tidings.tasks import cancel

log = logging.getLogger("tidings.deliver")
Id = tuple[str, str | None, str | None]  # of a message: conversation, sender, message_id
_YOUNG_S = 5.0  # when a conversation is new here, entries this young may still be on their way to us
_TOGETHER = 50  # sequencers, or members, that are read at the same time


def _counts(one: Indexed) -> Counts:
    totals = one.total_unread, one.mention_count, one.total_mentions
    return one.unread_count, one.unread_capped, *totals, one.threads


@dataclass(eq=False, repr=False, kw_only=True)
class Deliver:
    hub: Hub
    access: Access
    blocks: Blocks
    log: Log
    inbox: Inbox
    unread: CountedTogether
    router: Router
    registry: Registry
    membership_events: MembershipEvents
    bus: Bus
    count_resync: CountResync
    clock: Clock
    node_id: str
    count_deliveries: Callable[[int], None]
    quiet: Callable[[], Awaitable[None]]

    def __post_init__(self) -> None:
        self._is_behind = False  # nothing new goes out before the entries that passed this node by were read
        self._sequencers: dict[str, Sequencer] = {}
        self._tasks: dict[object, asyncio.Task[None]] = {}
        events, spawn, after = self.membership_events, self._spawn, (self.count_deliveries, self.quiet)
        self._late_counts = LateCounts(self.hub, self.access, self.unread, self.router, spawn, events.push_back)
        self._fan_out = FanOut(self.hub, self.blocks, events, self._late_counts, spawn, *after)
        self._expected: set[Id] = set()  # messages that the lanes have under way

    # --- in -----------------------------------------------------------------------------------------

    async def route(
        self,
        member_list: MemberList,
        entries: Sequence[Entry],
        indexed: Mapping[str, Indexed],
        origins: Mapping[int, str | None],
    ) -> None:
        """Route a batch of our lane. `origins`: seq_no -> the connection that sent it and got its `ok` instead."""
        conversation_id = member_list.head.conversation_id
        self._publish(member_list, entries, indexed)
        counts = {user_id: _counts(indexed[user_id]) for user_id in self.hub.present(indexed)}
        # In a large conversation no counts come with an entry. The members here get them a moment later.
        self.accept(member_list, entries, None if member_list.head.large_ms else counts, origins)
        await self._fan_out.settle(conversation_id)  # a burst waits for its own pushes
        if self.registry.has_others:
            self._counted(conversation_id, counts, "")
        if any(one.is_late for one in indexed.values()):
            self._late_counts.warm_cold(member_list, indexed)
        now = self.access.cached(conversation_id) or member_list  # a lane elsewhere may have added them again
        for entry in entries:
            if entry.member is not None:
                self.membership_events.push_removed(now, entry)

    def expect(self, ids: Iterable[Id]) -> None:
        """Record that a lane is about to store these messages and will route them. They are not taken from the log
        meanwhile, because only the lane knows which connection gets its `ok` instead."""
        if self.registry.has_others:  # otherwise entries come from our lanes alone, in order
            self._expected.update(ids)

    def settled(self, ids: Iterable[Id]) -> None:
        """Record that the lane is done with these messages: routed, refused or given up."""
        if self._expected:
            self._expected.difference_update(ids)

    def recheck_from(self, conversation_id: str, seq_no: int) -> None:
        """Record that a batch failed half-way: from this number on the log may have entries that no lane routed."""
        sequencer = self._sequencer(conversation_id)
        sequencer.recheck_from = min(seq_no, sequencer.recheck_from or seq_no)

    def take(self, delivery: Delivery, node_id: str) -> None:
        """Take entries of another node. Our member list may be older than theirs."""
        self._counted(delivery.conversation_id, delivery.counts, node_id)
        member_list = self.access.cached(delivery.conversation_id)
        is_known = self.blocks.is_known(entry.sender_id for entry in delivery.entries)
        if is_known and member_list is not None and member_list.members_seq >= delivery.members_seq:
            self.accept(member_list, delivery.entries, delivery.counts or None, {})
            return
        sequencer = self._sequencer(delivery.conversation_id)
        sequencer.hold(delivery.entries, delivery.counts or None, {})
        sequencer.list_seq = max(sequencer.list_seq, delivery.members_seq)
        self._fill_later(sequencer, delivery.conversation_id, 0)

    def list_replaced(self, old: MemberList, new: MemberList) -> None:
        """Take note of a newer member list: members whom it lacks get the entries below their removal."""
        sequencer = self._sequencers.get(new.head.conversation_id)
        if sequencer is not None:
            record(sequencer, self.hub, old, new)

    def _counted(self, conversation_id: str, counts: Iterable[str], node_id: str) -> None:
        for user_id in counts:
            self.count_resync.record(user_id, conversation_id, node_id)

    def accept(
        self,
        member_list: MemberList,
        entries: Iterable[Entry],
        counts: Mapping[str, Counts] | None,
        origins: Mapping[int, str | None],
    ) -> None:
        """Push the entries that are next, and hold the others."""
        conversation_id = member_list.head.conversation_id
        sequencer = self._sequencer(conversation_id)
        sequencer.hold(entries, counts, origins)
        sequencer.list_seq = max(sequencer.list_seq, member_list.members_seq)
        if self.must_wait():
            return
        if sequencer.held and sequencer.last is None and not self.registry.has_others:
            # On a single node entries come in order from their one lane. The number below them must be 0, or the head.
            # Otherwise some batch failed half-way, now or before a restart, and the log is read.
            below = min(sequencer.held) - 1
            if below == 0 or (below == member_list.head.head and sequencer.recheck_from is None):
                sequencer.begin(below)
        self._advance(sequencer, member_list)
        self._fill_later(sequencer, conversation_id, GAP_WAIT_S)

    def must_wait(self) -> bool:
        """Whether new entries are held until `catch_up`: this node slept beyond its lease, and missed entries."""
        self._is_behind = self._is_behind or self.registry.has_lapsed()
        return self._is_behind

    def catch_up(self) -> None:
        """Let the held entries out: this node has read and pushed what it missed."""
        if self._is_behind:
            self._is_behind = False
            for conversation_id, sequencer in self._sequencers.items():
                self._fill_later(sequencer, conversation_id, 0)

    async def refresh(self, user_id: str, since_ms: int) -> None:
        """Read what changed since then: entries may have passed this user's sockets by."""
        if self.hub.of_user(user_id):
            for conversation_id in await self.inbox.changed(user_id, since_ms - int(SEAM_S * 1000)):
                await self._read_on(conversation_id, since_ms)

    async def reread(self, since_ms: int) -> None:
        """Compare every sequencer with the log: publishes may have passed this node by since then."""
        ids = list(self._sequencers)
        for start in range(0, len(ids), _TOGETHER):
            await asyncio.gather(*(self._read_on(id_, since_ms) for id_ in ids[start : start + _TOGETHER]))

    async def close(self) -> None:
        """End the work under way. Clients read the rest from the log."""
        await cancel(*self._tasks.values())
        await self.count_resync.close()

    # --- in order -----------------------------------------------------------------------------------

    def _sequencer(self, conversation_id: str) -> Sequencer:
        sequencer = self._sequencers.pop(conversation_id, None)
        if sequencer is None:
            sequencer = Sequencer(self.clock.monotonic_s())
            if len(self._sequencers) >= CONVERSATIONS_CACHED_MAX:
                quiet = (id_ for id_, one in self._sequencers.items() if one.filling is None)
                self._sequencers.pop(next(quiet, ""), None)  # the one that was quiet for longest
        self._sequencers[conversation_id] = sequencer
        return sequencer

    def _advance(self, sequencer: Sequencer, member_list: MemberList) -> None:
        if member_list.members_seq < sequencer.list_seq:  # a lane was slow with it, or it was read too early
            member_list = self.access.cached(member_list.head.conversation_id) or member_list
        if ready := sequencer.pop_ready(member_list.members_seq):
            sequencer.moved_s = self.clock.monotonic_s()
            if sequencer.leaving:
                self._push_leaving(sequencer, member_list, ready)
            self._fan_out.push(member_list, ready)
        if sequencer.is_miscounted and sequencer.counting is None:
            sequencer.counting = self._late_counts.push_again(sequencer, member_list.head.conversation_id)

    def _push_leaving(self, sequencer: Sequencer, member_list: MemberList, ready: Sequence[Held]) -> None:
        conversation_id = member_list.head.conversation_id
        for one in last_entries(sequencer, member_list, ready, self._fan_out.is_under_way(conversation_id)):
            if one.entries:
                self._fan_out.push(one.member_list, one.entries)
            if one.is_told:
                self._fan_out.push_removed(conversation_id, one.user_id)

    def _fill_later(self, sequencer: Sequencer, conversation_id: str, wait_s: float) -> None:
        if sequencer.filling is None and (sequencer.held or sequencer.is_owing):
            sequencer.filling = self._spawn(object(), self._fill(sequencer, conversation_id, wait_s))

    async def _fill(self, sequencer: Sequencer, conversation_id: str, wait_s: float) -> None:
        """Close the gap below the held entries from the log, for as long as it takes."""
        try:
            await asyncio.sleep(wait_s)
            while sequencer.held or sequencer.is_owing:
                if not await self._fill_once(sequencer, conversation_id):
                    await asyncio.sleep(GAP_AGAIN_S)
        finally:
            sequencer.filling = None

    async def _fill_once(self, sequencer: Sequencer, conversation_id: str) -> bool:
        """Read once what is missing. True: some entries went out."""
        if self.must_wait():
            return False
        before = sequencer.last
        try:
            if sequencer.has_gap:
                await self._read_gap(sequencer, conversation_id)
            # The list is read after the entries: an earlier one may not know who has left.
            member_list = await self.access.fresh(conversation_id)
            if member_list is not None and not sequencer.is_known_to(member_list.members_seq):
                member_list = await self.access.load(conversation_id)
            if member_list is None:
                sequencer.held.clear()
                sequencer.leaving.clear()
                return True
            await self.blocks.load(held.entry.sender_id for held in sequencer.held.values())
        except (StoreError, Problem) as error:
            log.info("gap stays open for the moment", extra=cause_of(error, conversation_id=conversation_id))
            return False
        self._advance_found(sequencer, member_list)
        return sequencer.last != before

    def _advance_found(self, sequencer: Sequencer, member_list: MemberList) -> None:
        """Push what is next, and then the removals that were found in the log: no entry below them comes later."""
        found = sequencer.found(member_list.members_seq)
        self._advance(sequencer, member_list)
        self.membership_events.push_found(found, member_list)

    async def _read_gap(self, sequencer: Sequencer, conversation_id: str) -> None:
        if sequencer.last is None or self._is_idle(sequencer):
            sequencer.leaving.clear()
            if sequencer.held:
                await self._begin(sequencer, conversation_id)
        else:
            found = await self.log.after(conversation_id, sequencer.last, PAGE_MAX)
            sequencer.hold((entry for entry in found if not self._is_expected(entry)), None, {})

    async def _begin(self, sequencer: Sequencer, conversation_id: str) -> None:
        """Begin a sequencer. Entries a little older than the entry that came may still be on their way to us."""
        before, lowest = sequencer.last, min(sequencer.held)
        came_ms = sequencer.held[lowest].entry.sent_ms
        reach_s = await self._reach_s(conversation_id)
        # Two servers, whose clocks differ, may have dated the entry that came and those below it.
        since_ms = min(came_ms - int(1000 * reach_s), self.registry.earliest_ms(reach_s))
        unrouted = sequencer.recheck_from or lowest

        def is_young(entry: Entry) -> bool:
            """Whether the entry may not have been routed. The time of a void says nothing: its writer made it up."""
            is_late = entry.is_void or entry.sent_ms > since_ms or entry.seq_no >= unrouted
            return is_late and entry.seq_no > (before or 0)

        young, is_end = await self.log.down(conversation_id, lowest, is_young, RESUME_ENTRIES_MAX)
        if is_end and lowest - len(young) - 1 > (before or 0):
            return  # it ends above a gap that may yet be filled, so the entries above it wait too
        if sequencer.last == before and sequencer.held:  # otherwise another task has begun it
            sequencer.recheck_from = None
            sequencer.begin(min([*sequencer.held, *(entry.seq_no for entry in young)]) - 1)
            sequencer.hold((entry for entry in young if not self._is_expected(entry)), None, {})

    async def _reach_s(self, conversation_id: str) -> float:
        """Return how far back entries may have passed this node by. While members are connected here, their leases may
        have been lost. Entries from before the longest connection here are read by the clients."""
        member_list = await self.access.fresh(conversation_id)
        here = self.hub.present(member_list.members) if member_list is not None else ()
        now_s = self.clock.monotonic_s()
        opened_s = min((one.opened_s for user_id in here for one in self.hub.of_user(user_id)), default=now_s)
        return _YOUNG_S + min(now_s - opened_s, STREAM_IDLE_S)

    def _is_expected(self, entry: Entry) -> bool:
        return (entry.conversation_id, entry.sender_id, entry.message_id) in self._expected

    def _is_idle(self, sequencer: Sequencer) -> bool:
        """Whether the sequencer is too old to know: entries may have come while no member was connected here."""
        return self.clock.monotonic_s() - sequencer.moved_s > STREAM_IDLE_S

    async def _read_on(self, conversation_id: str, since_ms: int) -> None:
        """Push the entries of the log that did not go out; from this time on if the sequencer is idle."""
        member_list = await self.access.fresh(conversation_id)
        if member_list is None or not self.hub.present(member_list.members):
            return
        sequencer = self._sequencer(conversation_id)
        if sequencer.last is None or self._is_idle(sequencer):
            from_ms = since_ms - int(SEAM_S * 1000)
            missed, is_gap = await self._since(conversation_id, sequencer.last or 0, from_ms)
            if not missed and is_gap:  # the newest entries stand above a gap: held, they go out when it is closed
                top = await self.log.top(conversation_id)
                newest = await self.log.above(conversation_id, max(top - PAGE_MAX, sequencer.last or 0), PAGE_MAX)
                young = takewhile(lambda entry: entry.is_void or entry.sent_ms >= from_ms, reversed(newest))
                await self._accept_found(sequencer, member_list, young)
            if not missed:
                return
            sequencer.list_seq = max(sequencer.list_seq, member_list.members_seq)
            sequencer.begin(max(sequencer.last or 0, missed[0].seq_no - 1))
            await self._accept_found(sequencer, member_list, missed)
        # Entries above a gap are held, or they would be forgotten again until the next entry.
        while page := await self.log.above(conversation_id, sequencer.last or 0, PAGE_MAX):
            before = sequencer.last
            await self._accept_found(sequencer, member_list, page)
            if sequencer.last == before or self._sequencers.get(conversation_id) is not sequencer:
                return  # the next is on its way through a lane; or the sequencer was forgotten for newer ones

    async def _accept_found(self, sequencer: Sequencer, member_list: MemberList, entries: Iterable[Entry]) -> None:
        sequencer.hold((entry for entry in entries if not self._is_expected(entry)), None, {})
        await self.blocks.load(held.entry.sender_id for held in sequencer.held.values())
        self._advance_found(sequencer, member_list)
        self._fill_later(sequencer, member_list.head.conversation_id, GAP_WAIT_S)

    async def _since(self, conversation_id: str, after: int, since_ms: int) -> tuple[list[Entry], bool]:
        """Return, ascending, the entries above `after` that are not older than this; and whether a gap ended them."""

        def is_young(entry: Entry) -> bool:
            return entry.seq_no > after and (entry.sent_ms >= since_ms or entry.is_void)

        found, is_end = await self.log.down(conversation_id, NEWEST, is_young, RESUME_ENTRIES_MAX)
        return found[::-1], is_end

    # --- out ----------------------------------------------------------------------------------------

    def _publish(self, member_list: MemberList, entries: Sequence[Entry], indexed: Mapping[str, Indexed]) -> None:
        nodes: dict[str, dict[str, Counts]] = {}
        for user_id, one in indexed.items():
            for lease in one.leases:
                node_id = lease.partition(":")[0]
                if node_id != self.node_id:
                    nodes.setdefault(node_id, {})[user_id] = _counts(one)
        conversation_id = member_list.head.conversation_id
        if member_list.head.large_ms:  # the member list is never walked: each node knows who is connected to it
            nodes = {node_id: {} for node_id in self.registry.others}
        for node_id, theirs in nodes.items():
            self.bus.publish(node_id, Delivery(conversation_id, member_list.members_seq, tuple(entries), theirs))

    def _spawn(self, key: object, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._tasks[key] = asyncio.get_running_loop().create_task(work, name="deliver")
        task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return task
