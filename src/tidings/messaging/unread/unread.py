"""Unread: a member's cursor and read ranges, and the counts that follow from them.

The tables decide. A change is a new version of the member's row, stored only on top of the version that it was made
from. The index in the keyspace follows in the order of versions, or goes cold and is rebuilt. So redelivery, reordering
and two devices at the same time leave the count exact. Receipts, which only go forward, are in reading/receipts.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeGuard

from tidings.clock import Clock
from tidings.errors import BadRequest, Conflict, NotFound, Problem, StoreError, Throttled, Unavailable
from tidings.messaging.access import Access
from tidings.messaging.unread.count import Count, load_member
from tidings.messaging.unread.large_counts import LargeCounts
from tidings.messaging.unread.ranges import is_same, next_version, read_these, read_up_to, seen_up_to, unread_from
from tidings.messaging.unread.rebuild import HOLD_MS, Rebuilds
from tidings.messaging.unread.unknown_outcomes import Marker, UnknownOutcomes
from tidings.model import Head, ReadState, Status, Totals
from tidings.pushes import ReadSynced, TotalsSynced
from tidings.routing.router import Router
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.scripts.answers import ReadAnswer, UnreadState
from tidings.stores.keyspace.scripts.marks import Mark, unpack_mark
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import Tables
from tidings.tasks import Listeners

_CAS_TRIES_MAX = 50  # devices of one user that change one row at the same moment
_TOTALS_TRIES_MAX = 20  # conversations that go cold while the totals are read

Pay = Callable[[int], Awaitable[object]]  # charges for so many rows; raises RateLimited


@dataclass(eq=False, repr=False)
class Unread:
    """Marks messages read and unread, and shows the counts."""

    access: Access
    tables: Tables
    keyspace: Keyspace
    scripts: Scripts
    count: Count
    rebuilds: Rebuilds
    threads: Rebuilds  # of the index of threads, whose total is one of the user's totals
    large: LargeCounts
    router: Router
    unknown_outcomes: UnknownOutcomes
    clock: Clock
    read_up_to: Listeners[[str, str, int]]
    unread_changed: Listeners[[str]]

    async def mark_read(
        self,
        user_id: str,
        conversation_id: str,
        *,
        up_to_seq: int | None = None,
        up_to_ts: int | None = None,
        seqs: Sequence[int] | None = None,
        origin: str | None = None,
    ) -> ReadState:
        """Mark as read: exactly one of up_to_seq, up_to_ts (inclusive, on the clock of sent_at) and seqs.

        `origin` is the connection that asks; it gets the answer, and the user's other devices get the event.
        """
        if sum(given is not None for given in (up_to_seq, up_to_ts, seqs)) != 1:
            raise BadRequest("give one of up_to_seq, up_to_ts and seqs")
        async with self._marker(user_id, conversation_id) as marker:
            if up_to_ts is not None:
                up_to_seq = await self.tables.log.seq_at(self._log_of(conversation_id), up_to_ts)
            for _ in range(_CAS_TRIES_MAX):
                head, before = await self._load(user_id, conversation_id)
                up_to = min(up_to_seq, head.head) if up_to_seq is not None else 0
                singles = [seq for seq in seqs or () if 0 < seq <= head.head]
                after = read_up_to(before, up_to) if seqs is None else read_these(before, singles)
                if is_same(before, after) and up_to <= before.read_seq:
                    return await self._current_state(marker, before)
                if (stored := await self._commit(marker, after, receipt=up_to)) is not None:
                    if up_to > before.read_seq:
                        self.read_up_to(user_id, conversation_id, up_to)
                    with self.unknown_outcomes.of([(user_id, conversation_id)], is_committed=True):
                        return await self._update_index(marker, stored, singles, origin)
        raise Unavailable("the read mark changes too fast")

    async def mark_unread(
        self, user_id: str, conversation_id: str, *, from_seq: int, origin: str | None = None, pay: Pay | None = None
    ) -> ReadState:
        """Mark everything from from_seq on as unread again. Receipts stay.

        The index is rebuilt from the rows of the log; `pay` charges for them before anything changes, or refuses."""
        if from_seq < 1:
            raise BadRequest("from_seq begins at 1")
        async with self._marker(user_id, conversation_id) as marker:
            for _ in range(_CAS_TRIES_MAX):
                head, before = await self._load(user_id, conversation_id)
                after = unread_from(before, from_seq)
                if is_same(before, after):
                    return await self._current_state(marker, before)
                if pay is not None:
                    await pay(max(0, head.head - from_seq))
                    pay = None  # once, however often another device is first
                if (stored := await self._commit(marker, after, receipt=0)) is not None:
                    with self.unknown_outcomes.of([(user_id, conversation_id)], is_committed=True):
                        return await self.rebuild_index(marker, stored, origin)
        raise Unavailable("the read mark changes too fast")

    async def delivered(self, acks: Sequence[tuple[str, str, int]]) -> None:
        """Make the counts follow receipts (conversation_id, user_id, seq_no) that are stored already.

        Under unread.policy = when_offline, what was delivered does not count. The device that acknowledges was told a
        count with the message in it, so the devices get the new count. Counts that are cold are pushed by the rebuild.
        Under until_read nothing changes, but a node with the other policy may have built the index: that one goes cold.
        """
        if not self.scripts.is_delivered_seen:
            acks = [(conversation_id, user_id, 0) for conversation_id, user_id, _ in await self._of_others(acks)]
        calls = [
            self.scripts.unread_read(user_id, id_, version=0, cursor=0, seen=seq_no, ranges=(), seqs=())
            for id_, user_id, seq_no in acks
        ]
        answers = await self.keyspace.run(calls) if calls else ()
        for (conversation_id, user_id, _), answer in zip(acks, answers, strict=True):
            if not self.scripts.is_delivered_seen or answer.is_cold:
                continue
            if answer.total_unread is None:  # some are large, and are counted apart
                with suppress(NotFound):  # the member has left meanwhile
                    self.push_state(await self.state_soon(user_id, conversation_id), user_id, None)
            else:
                self.push_state(_state_after(conversation_id, answer), user_id, None)

    async def _of_others(self, acks: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
        """Return the receipts of users whose index a node with other settings has built, or builds now. One plain read
        per user is far cheaper than the script, and nearly always there is nobody."""
        marks = {user_id: self.scripts.keys.mark(user_id) for _, user_id, _ in acks}
        found = await self.keyspace.run([plain(mark, b"HMGET", mark, b":epoch", b":begun") for mark in marks.values()])
        others = set()
        for (user_id, mark), answer in zip(marks.items(), found, strict=True):
            built = answer[0] or answer[1]
            if built is not None and not built.startswith(
                (self.keyspace.epoch(mark) + self.scripts.epoch_tag).encode()
            ):
                others.add(user_id)
        return [ack for ack in acks if ack[1] in others]

    # --- what is shown ------------------------------------------------------------------------------

    def firsts_call(self, user_id: str, conversation_id: str) -> Call[list[bytes | None]]:
        """Return a call that runs beside others; `firsts` reads its answer."""
        key = self.scripts.keys.mark(user_id)
        return plain(key, b"HMGET", key, b":epoch", b"*", b":put", conversation_id)

    async def firsts(
        self, user_id: str, conversation_id: str, answer: list[bytes | None]
    ) -> tuple[int | None, int | None]:
        """Return first_unread_seq and first_mention_seq. A cold index is rebuilt first."""
        epoch, size, markers, packed = answer
        epoch_now = self.keyspace.epoch(self.scripts.keys.mark(user_id)) + self.scripts.epoch_tag
        is_warm = size is not None and epoch == epoch_now.encode()
        if packed is not None and is_warm and markers is None:
            mark = await self.large.one(user_id, conversation_id, unpack_mark(packed))
        else:
            found = await self.large.read(user_id, conversation_id)
            mark = await self._warm_mark(user_id, conversation_id, found)
        return await self.first(user_id, conversation_id, mark), mark.first_mention or None

    async def state(self, user_id: str, conversation_id: str) -> ReadState:
        """Return the member's counts. A cold index is rebuilt first. The caller has authorized."""
        found = await self.large.read(user_id, conversation_id)
        return await self._state_of(user_id, conversation_id, found)

    async def state_soon(self, user_id: str, conversation_id: str) -> ReadState:
        """Return `state` without a rebuild: cold counts come from the tables, without the totals."""
        found = await self.large.read(user_id, conversation_id)
        if found is None or found.mark is None:
            return await self.from_tables(user_id, conversation_id)
        return await self.describe(user_id, conversation_id, found.mark, found.total_unread, found.total_mentions)

    def totals_calls(self, user_id: str) -> Sequence[Call[UnreadState | None]]:
        """Return the calls whose answers `totals` takes, for a caller with more to ask in the same round trip."""
        return self.scripts.unread_state(user_id), self.scripts.threads.unread_state(user_id)

    async def totals(self, user_id: str, found: Sequence[UnreadState | None] = ()) -> Totals:
        """Return the user's totals: the badge. A cold index is rebuilt first. `found` answers `totals_calls`."""
        for _ in range(_TOTALS_TRIES_MAX):
            mine, threads = found or await self.keyspace.run(self.totals_calls(user_id))
            mine = await self.large.complete(user_id, "", mine)
            if mine is not None and mine.total_unread is not None and _is_warm(threads):
                totals = mine.total_unread, mine.unread_conversations, mine.total_mentions
                return Totals(*totals, threads.unread_conversations)
            await asyncio.gather(_warm(self.rebuilds, user_id, mine), _warm(self.threads, user_id, threads))
            found = ()
        raise Unavailable("the totals are being rebuilt")

    async def recount(self, user_id: str) -> None:
        """Count again what the user wants in the totals, and push them to the user's devices."""
        await self.keyspace.one(self.scripts.unread_put(user_id, self.rebuilds.token(), hold_ms=-1))
        self.router.push(user_id, TotalsSynced(await self.totals(user_id)))
        self.unread_changed(user_id)

    async def from_tables(self, user_id: str, conversation_id: str) -> ReadState:
        """Return the same state without the keyspace, for when it is down. The totals are not known then."""
        counted = await self.count.one(user_id, conversation_id)
        return await self.describe(user_id, conversation_id, counted.mark, None)

    async def describe(
        self, user_id: str, conversation_id: str, mark: Mark, total_unread: int | None, total_mentions: int = 0
    ) -> ReadState:
        """Return a mark in the words of the wire."""
        first = mark.first or (await self.first(user_id, conversation_id, mark) if mark.count else None)
        return ReadState(
            conversation_id=conversation_id,
            read_seq=mark.cursor,
            unread_count=mark.shown(self.scripts.cap),
            unread_capped=mark.is_capped,
            first_unread_seq=first,
            total_unread=total_unread,
            mention_count=mark.mentions,
            first_mention_seq=mark.first_mention or None,
            total_mentions=total_mentions,
        )

    def state_after(self, conversation_id: str, answer: ReadAnswer) -> ReadState | None:
        """Return what a read leaves unread. None: the keyspace alone cannot say it all."""
        return _state_after(conversation_id, answer) if answer.is_enough else None

    async def first(self, user_id: str, conversation_id: str, mark: Mark) -> int | None:
        """Return the oldest unread number of a mark. Above the cap only the log has it."""
        if mark.first or not mark.shown(self.scripts.cap):
            return mark.first or None
        return await self.count.oldest_unread(user_id, conversation_id, after=mark.seen, ranges=mark.ranges)

    async def _state_of(self, user_id: str, conversation_id: str, found: UnreadState | None) -> ReadState:
        mark = await self._warm_mark(user_id, conversation_id, found)
        if found is not None and found.mark is not None and found.total_unread is not None:
            return await self.describe(user_id, conversation_id, mark, found.total_unread, found.total_mentions)
        totals = await self.totals(user_id)
        return await self.describe(user_id, conversation_id, mark, totals.total_unread, totals.total_mentions)

    async def _warm_mark(self, user_id: str, conversation_id: str, found: UnreadState | None) -> Mark:
        """Return the mark that was found, or one that is made now, with its counts."""
        if found is not None and found.mark is not None:
            return found.mark
        return await self.large.one(
            user_id, conversation_id, await self.rebuilds.conversation(user_id, conversation_id)
        )

    # --- changes ------------------------------------------------------------------------------------

    def _log_of(self, conversation_id: str) -> str:
        """The conversation whose log has the entries that are counted."""
        return conversation_id

    async def _load(self, user_id: str, conversation_id: str) -> tuple[Head, Status]:
        _, head, status = await load_member(self.tables, user_id, conversation_id)
        return head, status

    async def _store(self, status: Status) -> Status:
        """Store a status on top of the version before it. Raises Conflict."""
        return await self.tables.statuses.put(status)

    @asynccontextmanager
    async def _marker(self, user_id: str, conversation_id: str) -> AsyncIterator[Marker]:
        """Authorize, and leave a marker in the keyspace in the same round trip.

        If this node dies between the commit and the update of the keyspace, the marker stays and makes the
        conversation cold. A change that was refused, or throttled, has committed nothing: its marker is removed.
        """
        marker, call = self.leave(user_id, conversation_id)
        try:
            if (
                await self.access.authorize_beside(user_id, self._log_of(conversation_id), "read", call)
            ).beside is None:
                raise Unavailable("the keyspace is down, so nothing was marked")
            yield marker
        except (Problem, StoreError):
            if not marker.may_be_written:
                with suppress(StoreError):
                    await self.keyspace.one(self.remove(marker))
            raise

    def leave(self, user_id: str, conversation_id: str) -> tuple[Marker, Call[int]]:
        """Make a marker, and the call that leaves it."""
        marker = Marker(user_id, conversation_id, self.rebuilds.token())
        put = self.scripts.unread_put
        return marker, put(user_id, marker.token, hold_ms=HOLD_MS, conversation_id=conversation_id)

    def remove(self, marker: Marker) -> Call[int]:
        return self.scripts.unread_put(marker.user_id, marker.token, hold_ms=0)

    async def _commit(self, marker: Marker, status: Status, *, receipt: int) -> Status | None:
        """Store the next version of the status. None: another device was first."""
        newer = next_version(status, receipt=receipt, now_ms=self.clock.now_ms())
        marker.may_be_written = True
        try:
            with self.unknown_outcomes.of([(status.user_id, status.conversation_id)]):
                return await self._store(newer)
        except Conflict:
            marker.may_be_written = False
            return None
        except (Throttled, Unavailable) as error:
            marker.may_be_written = isinstance(error, Unavailable) and error.is_ambiguous
            raise

    async def _update_index(
        self, marker: Marker, status: Status, singles: Sequence[int], origin: str | None
    ) -> ReadState:
        """Make the keyspace follow a read that is in the tables."""
        answer = await self.keyspace.one(self.read_call(marker, status, singles))
        return await self.show_read(marker, status, answer, origin)

    def read_call(self, marker: Marker, status: Status, singles: Sequence[int] = ()) -> Call[ReadAnswer]:
        """Return the call that makes the keyspace follow a read, and removes its marker."""
        return self.scripts.unread_read(
            status.user_id,
            status.conversation_id,
            version=status.version,
            cursor=status.cursor_seq,
            seen=seen_up_to(status, is_delivered_seen=self.scripts.is_delivered_seen),
            ranges=status.ranges,
            seqs=singles,
            token=marker.token,
        )

    async def show_read(self, marker: Marker, status: Status, answer: ReadAnswer, origin: str | None) -> ReadState:
        """Return what is unread after `read_call`, and push it to the user's other devices."""
        if answer.is_cold:
            return await self.rebuild_index(marker, status, origin)
        id_, user_id = status.conversation_id, status.user_id
        return self.push_state(self.state_after(id_, answer) or await self.state(user_id, id_), user_id, origin)

    async def rebuild_index(self, marker: Marker, status: Status, origin: str | None) -> ReadState:
        """Rebuild the conversation from the tables, where the keyspace cannot follow the change."""
        user_id, conversation_id = status.user_id, status.conversation_id
        await self.rebuilds.conversation(user_id, conversation_id, version=status.version)
        return self.push_state(await self._current_state(marker, status), user_id, origin)

    async def _current_state(self, marker: Marker, status: Status) -> ReadState:
        """Return what the keyspace shows, if it has this version; otherwise rebuild. So a client that repeats a change
        mends one that failed between the tables and the keyspace."""
        user_id, conversation_id = status.user_id, status.conversation_id
        read = self.scripts.unread_state(user_id, conversation_id)
        calls: tuple[Call[Any], ...] = (read, self.remove(marker))
        found, _ = await self.keyspace.run(calls)
        if found is not None and found.mark is not None and found.mark.version < status.version:
            await self.rebuilds.conversation(user_id, conversation_id, version=status.version)
            found = await self.keyspace.one(read)
        found = await self.large.complete(user_id, conversation_id, found)
        return await self._state_of(user_id, conversation_id, found)

    def push_state(self, state: ReadState, user_id: str, origin: str | None) -> ReadState:
        """Push the counts to the user's other devices."""
        self.router.push(user_id, ReadSynced(state), but=origin)
        self.unread_changed(user_id)
        return state


def _state_after(conversation_id: str, answer: ReadAnswer) -> ReadState:
    return ReadState(
        conversation_id=conversation_id,
        read_seq=answer.read_seq,
        unread_count=answer.unread_count,
        unread_capped=answer.unread_capped,
        first_unread_seq=answer.first or None,
        total_unread=answer.total_unread,
        mention_count=answer.mention_count,
        first_mention_seq=answer.first_mention or None,
        total_mentions=answer.total_mentions,
    )


def _is_warm(found: UnreadState | None) -> TypeGuard[UnreadState]:
    return found is not None and found.total_unread is not None


async def _warm(rebuilds: Rebuilds, user_id: str, found: UnreadState | None) -> None:
    """Rebuild all of the user, or the conversations that are cold. A warm index stays."""
    if found is None:
        await rebuilds.user(user_id)
    elif not _is_warm(found):
        await rebuilds.cold_conversations(user_id)
