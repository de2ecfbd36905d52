"""Stage: route. What was acknowledged goes to the members' devices, on every node, in the order of the log.

The nodes to tell come with the index call (leases); each gets one publish per turn. On the receiving side, and for our
own sockets alike, a conversation is a `Stream`: entries go out in the order of their numbers, an entry that is not the
next waits GAP_WAIT_S, then what lies between is read from the log. So a lost publish, a race of two nodes or an open
slot never makes a device skip or repeat an entry. Local sockets come from the hub, never from leases. Called by the
lanes (send.py), by what other nodes publish and after trouble (tending.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
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
from tidings.errors import Problem, StoreError
from tidings.messaging.access import Access, Roster
from tidings.messaging.crossings import Crossings
from tidings.messaging.inbox import Inbox
from tidings.messaging.newcomers import Newcomers
from tidings.messaging.slots import NEWEST, Slots
from tidings.messaging.streams import Held, Stream
from tidings.messaging.unread import Unread
from tidings.model import Entry, MessageNew, ReadSynced
from tidings.routing.bus import Bus, Counts, Delivery
from tidings.routing.hub import Hub
from tidings.routing.router import Router
from tidings.stores.scripts import Indexed

log = logging.getLogger("tidings.deliver")
Id = tuple[str, str | None, str | None]  # of a message: conversation, sender, message_id
_YOUNG_S = 5.0  # at first sight of a conversation, entries this young may still be on their way to us
_UNKNOWN: Counts = (None, False, None)
_NO_COUNTS: Mapping[str, Counts] = {}
_TOGETHER = 50  # streams, or members, that are looked after at the same time


def _counts(one: Indexed) -> Counts:
    return one.unread_count, one.unread_capped, one.total_unread


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
        newcomers: Newcomers,
        bus: Bus,
        crossings: Crossings,
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
        self._newcomers = newcomers
        self._bus = bus
        self._crossings = crossings
        self._clock = clock
        self._node_id = node_id
        self._has_others = has_others
        self._count_deliveries = count_deliveries
        self._streams: dict[str, Stream] = {}
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._expected: set[Id] = set()  # what the lanes have under way

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
        if self._has_others():
            self._counted(roster.head.conversation_id, counts, "")
        self._warm_cold(roster, indexed)
        for entry in entries:
            if entry.member is not None:
                self._spawn(object(), self._newcomers.tell(roster, entry))  # it may rebuild: the lane does not wait

    def expect(self, ids: Iterable[Id]) -> None:
        """A lane is about to store these, and will route them: they are not to be taken from the log meanwhile, for
        only the lane knows which connection gets its `ok` instead."""
        if self._has_others():  # else nothing comes but from our lanes, in order
            self._expected.update(ids)

    def settled(self, ids: Iterable[Id]) -> None:
        """The lane is through with them: routed, refused or given up."""
        if self._expected:
            self._expected.difference_update(ids)

    def doubt(self, conversation_id: str, seq_no: int) -> None:
        """A batch failed half-way: what it stored from here on is in the log, and its lane has not routed it."""
        stream = self._stream(conversation_id)
        stream.doubted = min(seq_no, stream.doubted or seq_no)

    def take(self, delivery: Delivery, node_id: str) -> None:
        """From another node. Our member list may be older than what it tells of."""
        self._counted(delivery.conversation_id, delivery.counts, node_id)
        roster = self._access.cached(delivery.conversation_id)
        if roster is not None and roster.members_seq >= delivery.members_seq:
            self.accept(roster, delivery.entries, delivery.counts, {})
            return
        stream = self._stream(delivery.conversation_id)
        stream.hold(delivery.entries, delivery.counts, {})
        self._fill_later(stream, delivery.conversation_id, 0)

    def _counted(self, conversation_id: str, counts: Iterable[str], node_id: str) -> None:
        for user_id in counts:
            self._crossings.told(user_id, conversation_id, node_id)

    def accept(
        self,
        roster: Roster,
        entries: Iterable[Entry],
        counts: Mapping[str, Counts],
        origins: Mapping[int, str | None],
    ) -> None:
        """Push what is next; hold what is not."""
        conversation_id = roster.head.conversation_id
        stream = self._stream(conversation_id)
        stream.hold(entries, counts, origins)
        if stream.held and stream.last is None and not self._has_others():
            # Alone, entries come in order from their one lane. But below them must be nothing, or the head: else some
            # batch failed half-way, now or in an earlier life: what it stored or left open is looked for in the log.
            below = min(stream.held) - 1
            if below == 0 or (below == roster.head.head and stream.doubted is None):
                stream.last = below
        self._advance(stream, roster)
        self._fill_later(stream, conversation_id, GAP_WAIT_S)

    async def refresh(self, user_id: str, since_ms: int) -> None:
        """Entries may have passed by this user's sockets since then: read what changed."""
        if self._hub.of_user(user_id):
            for conversation_id in await self._inbox.changed(user_id, since_ms - int(SEAM_S * 1000)):
                await self._read_on(conversation_id, since_ms)

    async def reread(self, since_ms: int) -> None:
        """Publishes may have passed this node by since then: every stream is compared with the log."""
        ids = list(self._streams)
        for start in range(0, len(ids), _TOGETHER):
            await asyncio.gather(*(self._read_on(id_, since_ms) for id_ in ids[start : start + _TOGETHER]))

    async def close(self) -> None:
        """Whatever is under way ends here; clients read the rest from the log."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._crossings.close()

    # --- in order -----------------------------------------------------------------------------------

    def _stream(self, conversation_id: str) -> Stream:
        stream = self._streams.pop(conversation_id, None)
        if stream is None:
            stream = Stream(self._clock.monotonic_s())
            if len(self._streams) >= CONVERSATIONS_CACHED_MAX:  # the one that was quiet for longest
                self._streams.pop(next((id_ for id_, one in self._streams.items() if one.filling is None), ""), None)
        self._streams[conversation_id] = stream
        return stream

    def _advance(self, stream: Stream, roster: Roster) -> None:
        if ready := stream.pop_ready(roster.members_seq):
            stream.moved_s = self._clock.monotonic_s()
            self._push(roster, ready)
        if stream.is_miscounted and stream.counting is None:
            stream.counting = self._spawn(object(), self._tell_counts(stream, roster.head.conversation_id))

    def _fill_later(self, stream: Stream, conversation_id: str, wait_s: float) -> None:
        if stream.held and stream.filling is None:
            stream.filling = self._spawn(object(), self._fill(stream, conversation_id, wait_s))

    async def _fill(self, stream: Stream, conversation_id: str, wait_s: float) -> None:
        """Close the gap below what is held, from the log; for as long as it takes."""
        try:
            await asyncio.sleep(wait_s)
            while stream.held:
                if not await self._fill_once(stream, conversation_id):
                    await asyncio.sleep(GAP_AGAIN_S)
        finally:
            stream.filling = None

    async def _fill_once(self, stream: Stream, conversation_id: str) -> bool:
        """True: some went out."""
        before = stream.last
        try:
            if stream.has_gap:
                await self._read_gap(stream, conversation_id)
            # After the entries: a list that was read before them may not know who has left.
            roster = await self._access.fresh(conversation_id)
            if roster is not None and not stream.is_known_to(roster.members_seq):
                roster = await self._access.load(conversation_id)
            if roster is None:
                stream.held.clear()
                return True
        except (StoreError, Problem) as error:
            log.info("a gap stays open for the moment: %s", error)
            return False
        await self._newcomers.tell_found(stream.found(roster.members_seq), roster)
        self._advance(stream, roster)
        return stream.last != before

    async def _read_gap(self, stream: Stream, conversation_id: str) -> None:
        if stream.last is None or self._is_idle(stream):
            await self._begin(stream, conversation_id)
        else:
            found = await self._slots.after(conversation_id, stream.last, PAGE_MAX)
            stream.hold((entry for entry in found if not self._is_expected(entry)), None, {})

    async def _begin(self, stream: Stream, conversation_id: str) -> None:
        """At first sight: what is little older than the entry that came may still be on its way to us."""
        before, lowest = stream.last, min(stream.held)
        since_ms = stream.held[lowest].entry.sent_ms - int(1000 * await self._reach_s(conversation_id))
        doubted = stream.doubted or lowest

        def is_young(entry: Entry) -> bool:
            """The time of a void says nothing: it was made up when somebody closed the slot."""
            is_late = entry.kind == "void" or entry.sent_ms > since_ms or entry.seq_no >= doubted
            return is_late and entry.seq_no > (before or 0)

        young, is_end = await self._slots.down(conversation_id, lowest, is_young, RESUME_ENTRIES_MAX)
        if is_end and lowest - len(young) - 1 > (before or 0):
            return  # it ends above an open slot, which may yet be filled: what is above it waits too
        if stream.last == before and stream.held:  # else somebody else has begun
            stream.doubted = None
            stream.last = min([*stream.held, *(entry.seq_no for entry in young)]) - 1
            stream.hold((entry for entry in young if not self._is_expected(entry)), None, {})

    async def _reach_s(self, conversation_id: str) -> float:
        """How far back entries may have passed this node by: while its members are connected, their leases may have
        been lost. What came before the longest connection here, clients read."""
        roster = await self._access.fresh(conversation_id)
        here = self._hub.present(roster.members) if roster is not None else ()
        now_s = self._clock.monotonic_s()
        opened_s = min((one.opened_s for user_id in here for one in self._hub.of_user(user_id)), default=now_s)
        return _YOUNG_S + min(now_s - opened_s, STREAM_IDLE_S)

    def _is_expected(self, entry: Entry) -> bool:
        return (entry.conversation_id, entry.sender_id, entry.message_id) in self._expected

    def _is_idle(self, stream: Stream) -> bool:
        """Where it stands says nothing: entries may have come while no member was connected here to be told."""
        return self._clock.monotonic_s() - stream.moved_s > STREAM_IDLE_S

    async def _read_on(self, conversation_id: str, since_ms: int) -> None:
        """Whatever the log has that did not go out, from this time on where the stream does not know better."""
        roster = await self._access.fresh(conversation_id)
        if roster is None or not self._hub.present(roster.members):
            return
        stream = self._stream(conversation_id)
        if stream.last is None or self._is_idle(stream):
            missed = await self._since(conversation_id, stream.last or 0, since_ms - int(SEAM_S * 1000))
            if not missed:
                return
            stream.last = max(stream.last or 0, missed[0].seq_no - 1)
            await self._accept_found(stream, roster, missed)
        # What is above an open slot is held, or it would be forgotten again until the next entry.
        while page := await self._slots.above(conversation_id, stream.last, PAGE_MAX):
            before = stream.last
            await self._accept_found(stream, roster, page)
            if stream.last == before or self._streams.get(conversation_id) is not stream:
                return  # the next is on its way through a lane; or the stream was forgotten for newer ones

    async def _accept_found(self, stream: Stream, roster: Roster, entries: Iterable[Entry]) -> None:
        stream.hold((entry for entry in entries if not self._is_expected(entry)), None, {})
        await self._newcomers.tell_found(stream.found(roster.members_seq), roster)
        self._advance(stream, roster)
        self._fill_later(stream, roster.head.conversation_id, GAP_WAIT_S)

    async def _since(self, conversation_id: str, after: int, since_ms: int) -> list[Entry]:
        """Ascending: entries above `after` that are not older."""

        def is_young(entry: Entry) -> bool:
            return entry.seq_no > after and (entry.sent_ms >= since_ms or entry.kind == "void")

        found, _ = await self._slots.down(conversation_id, NEWEST, is_young, RESUME_ENTRIES_MAX)
        return found[::-1]

    # --- out ----------------------------------------------------------------------------------------

    def _push(self, roster: Roster, ready: Sequence[Held]) -> None:
        """Members without a connection here cost nothing: a channel may have a thousand of them. What is new to a
        member begins with joining; what they may see of the time before is history."""
        pushed = 0
        is_limited = roster.head.history == "joined"
        last_counts = ready[-1][1]
        for user_id in self._hub.present(roster.members):
            outbounds = self._hub.of_user(user_id)
            start = roster.members[user_id].joined_seq - (not is_limited)
            for entry, counts, origin in ready:
                if entry.seq_no <= start:
                    continue
                event = MessageNew(entry, *(counts or _NO_COUNTS).get(user_id, _UNKNOWN))
                for outbound in outbounds:
                    if outbound.connection_id != origin:
                        outbound.push(event)
                        pushed += 1
            if last_counts is not None and user_id not in last_counts:  # came after the index: the count follows
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

    # --- counts that came late or are COLD ----------------------------------------------------------

    async def _tell_counts(self, stream: Stream, conversation_id: str) -> None:
        """What was read from the log came without counts, and what came with it was perhaps counted without it."""
        try:
            while stream.is_miscounted:
                stream.is_miscounted = False
                roster = self._access.cached(conversation_id)
                here = list(self._hub.present(roster.members)) if roster is not None else []
                for start in range(0, len(here), _TOGETHER):
                    await asyncio.gather(*(self._tell_count(id_, conversation_id) for id_ in here[start:][:_TOGETHER]))
        except (Problem, StoreError) as error:
            log.info("counts come with the next entry: %s", error)
        finally:
            stream.counting = None

    async def _tell_count(self, user_id: str, conversation_id: str) -> None:
        self._hub.push(user_id, ReadSynced(await self._unread.state(user_id, conversation_id)))

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

    def _spawn(self, key: object, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._tasks[key] = asyncio.get_running_loop().create_task(work, name="deliver")
        task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return task
