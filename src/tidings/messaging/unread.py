"""A member's own unread state: the cursor, the sparse ranges above it, and the counts that follow from them.

The table decides: a change is a new version of the member's row, put only on top of the version it was made from. The
keyspace follows in the order of versions, or goes COLD and is rebuilt. So redelivery, reordering and two devices at
once leave the count exact. Called by the gateway; ticks are receipts.py's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from tidings.bounds import READ_RANGES_MAX
from tidings.errors import BadRequest, Conflict, NotFound, Problem, TooLarge, Unavailable
from tidings.messaging.access import Access
from tidings.messaging.doubts import Doubts
from tidings.messaging.rebuild import HOLD_MS, Rebuilds, Tables, effective
from tidings.model import Ranges, ReadState, ReadSynced, Status, Totals
from tidings.routing.router import Router
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.scripts import Look, Mark, Scripts, unpack_mark

_CAS_TRIES_MAX = 50  # devices of one user changing one row at the same moment
_LOOKS_MAX = 20  # conversations that go COLD while the totals are put together


def read_up_to(status: Status, seq_no: int) -> Status:
    """Everything up to seq_no is read; ranges that the cursor reaches are taken in."""
    return _folded(status, max(status.cursor_seq, seq_no), status.ranges)


def read_these(status: Status, seqs: Iterable[int]) -> Status:
    """Only these are read. Raises TooLarge when they make too many ranges."""
    singles = tuple((seq, seq) for seq in seqs if seq > status.cursor_seq)
    changed = _folded(status, status.cursor_seq, status.ranges + singles)
    if len(changed.ranges) > READ_RANGES_MAX:
        raise TooLarge(f"more than {READ_RANGES_MAX} separate stretches are read; read up to a seq instead")
    return changed


def unread_from(status: Status, seq_no: int) -> Status:
    """Everything from seq_no on is unread again."""
    cut = tuple((low, min(high, seq_no - 1)) for low, high in status.ranges if low < seq_no)
    return _folded(status, min(status.cursor_seq, seq_no - 1), cut)


def _folded(status: Status, cursor: int, ranges: Ranges) -> Status:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if high <= cursor:
            continue
        if low <= cursor + 1:
            cursor = high
        elif merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return msgspec.structs.replace(status, cursor_seq=cursor, ranges=tuple(merged))


def _is_same(one: Status, other: Status) -> bool:
    return (one.cursor_seq, one.ranges) == (other.cursor_seq, other.ranges)


class _Note(NamedTuple):
    """What the keyspace remembers while a change is committed."""

    user_id: str
    token: str


class Unread:
    """Reads and marks."""

    def __init__(
        self,
        access: Access,
        tables: Tables,
        keyspace: Keyspace,
        scripts: Scripts,
        rebuilds: Rebuilds,
        router: Router,
        doubts: Doubts,
        *,
        is_delivered_seen: bool,
    ) -> None:
        self._access = access
        self._tables = tables
        self._keyspace = keyspace
        self._scripts = scripts
        self._rebuilds = rebuilds
        self._router = router
        self._doubts = doubts
        self._is_delivered_seen = is_delivered_seen
        self.on_change: Callable[[str], None] = lambda user_id: None  # notify.py: the badge
        self.on_read: Callable[[str, str, int], None] = lambda user_id, conversation_id, seq_no: None  # receipts.py

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
        """Exactly one of up_to_seq, up_to_ts (inclusive, on sent_at's clock) and seqs."""
        if sum(given is not None for given in (up_to_seq, up_to_ts, seqs)) != 1:
            raise BadRequest("give one of up_to_seq, up_to_ts and seqs")
        async with self._noted(user_id, conversation_id) as note:
            if up_to_ts is not None:
                up_to_seq = await self._tables.seq_at(conversation_id, up_to_ts)
            for _ in range(_CAS_TRIES_MAX):
                before, head = await self._mine(user_id, conversation_id)
                up_to = min(up_to_seq, head) if up_to_seq is not None else 0
                wanted = [seq for seq in seqs or () if 0 < seq <= head]
                after = read_up_to(before, up_to) if seqs is None else read_these(before, wanted)
                if _is_same(before, after) and up_to <= before.read_seq:
                    return await self._unchanged(note, before)
                if (stored := await self._put(after, tick=up_to)) is not None:
                    if up_to > before.read_seq:
                        self.on_read(user_id, conversation_id, up_to)
                    with self._doubts.of([user_id]):
                        return await self._follow(note, stored, wanted, origin)
        raise Unavailable("the read mark changes too fast")

    async def mark_unread(
        self, user_id: str, conversation_id: str, *, from_seq: int, origin: str | None = None
    ) -> ReadState:
        """Everything from there on is unread again. Ticks stay."""
        if from_seq < 1:
            raise BadRequest("from_seq begins at 1")
        async with self._noted(user_id, conversation_id) as note:
            for _ in range(_CAS_TRIES_MAX):
                before, _ = await self._mine(user_id, conversation_id)
                after = unread_from(before, from_seq)
                if _is_same(before, after):
                    return await self._unchanged(note, before)
                if (stored := await self._put(after, tick=0)) is not None:
                    with self._doubts.of([user_id]):
                        return await self._rebuilt(note, stored, origin)
        raise Unavailable("the read mark changes too fast")

    async def delivered(self, user_id: str, conversation_id: str, seq_no: int) -> None:
        """Under unread.policy = when_offline, what was delivered does not count. Call after the tick is stored."""
        if self._is_delivered_seen:
            await self._keyspace.one(
                self._scripts.unread_read(
                    user_id, conversation_id, version=0, cursor=0, seen=seq_no, ranges=(), seqs=()
                )
            )

    # --- what is shown ------------------------------------------------------------------------------

    def glance(self, user_id: str, conversation_id: str) -> Call[list[bytes | None]]:
        """To be run beside other calls; `first_of` makes sense of the answer."""
        key = self._scripts.keys.mark(user_id)
        return plain(key, b"HMGET", key, b":epoch", b"*", b":put", conversation_id)

    async def first_of(self, user_id: str, conversation_id: str, seen: list[bytes | None]) -> int | None:
        """first_unread_seq alone, rebuilt first if it is COLD."""
        epoch, size, note, packed = seen
        is_warm = size is not None and epoch == self._keyspace.epoch(self._scripts.keys.mark(user_id)).encode()
        if packed is not None and is_warm and note is None:
            return await self._first(user_id, conversation_id, unpack_mark(packed))
        found = await self._keyspace.one(self._look(user_id, conversation_id))
        return await self._first(user_id, conversation_id, await self._rebuilds.mark(user_id, conversation_id, found))

    async def state(self, user_id: str, conversation_id: str) -> ReadState:
        """As it stands, rebuilt first if it is COLD. The caller has authorized."""
        found = await self._keyspace.one(self._look(user_id, conversation_id))
        return await self._described(user_id, conversation_id, found)

    async def totals(self, user_id: str) -> Totals:
        """The badge, rebuilt first if it is COLD."""
        for _ in range(_LOOKS_MAX):
            found = await self._keyspace.one(self._scripts.unread_state(user_id))
            if found is None:
                await self._rebuilds.user(user_id)
            elif found.total_unread is None:
                await self._rebuilds.missing(user_id)
            else:
                return Totals(found.total_unread, found.unread_conversations)
        raise Unavailable("the totals are being rebuilt")

    async def from_tables(self, user_id: str, conversation_id: str) -> ReadState:
        """The same without the keyspace, for when it is down; totals are not known then."""
        built = await self._rebuilds.read(user_id, conversation_id)
        return await self.describe(user_id, conversation_id, built.mark, None)

    async def describe(self, user_id: str, conversation_id: str, mark: Mark, total_unread: int | None) -> ReadState:
        """A mark in the words of the wire."""
        first = mark.first or (await self._first(user_id, conversation_id, mark) if mark.count else None)
        return ReadState(
            conversation_id=conversation_id,
            read_seq=mark.cursor,
            unread_count=mark.shown(self._scripts.cap),
            unread_capped=mark.floor > mark.seen,
            first_unread_seq=first,
            total_unread=total_unread,
        )

    def _look(self, user_id: str, conversation_id: str) -> Call[Look | None]:
        return self._scripts.unread_state(user_id, conversation_id)

    async def _first(self, user_id: str, conversation_id: str, mark: Mark) -> int | None:
        if mark.first or not mark.shown(self._scripts.cap):
            return mark.first or None
        return await self._rebuilds.oldest(user_id, conversation_id, after=mark.seen, ranges=mark.ranges)

    async def _described(self, user_id: str, conversation_id: str, found: Look | None) -> ReadState:
        mark = await self._rebuilds.mark(user_id, conversation_id, found)
        total = found.total_unread if found is not None and found.mark is not None else None
        if total is None:
            total = (await self.totals(user_id)).total_unread
        return await self.describe(user_id, conversation_id, mark, total)

    # --- changes ------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _noted(self, user_id: str, conversation_id: str) -> AsyncIterator[_Note]:
        """Authorized, and noted in the keyspace: should this node die between the commit and the keyspace's turn, the
        note stays and makes the user COLD. Where nothing was committed it is taken back."""
        note = _Note(user_id, self._rebuilds.token())
        call = self._scripts.unread_put(user_id, note.token, hold_ms=HOLD_MS)
        try:
            if (await self._access.authorize_beside(user_id, conversation_id, "read", call)).beside is None:
                raise Unavailable("the keyspace is down, so nothing was marked")
            yield note
        except Problem:
            await self._keyspace.one(self._taken_back(note))
            raise

    def _taken_back(self, note: _Note) -> Call[int]:
        return self._scripts.unread_put(note.user_id, note.token, hold_ms=0)

    async def _mine(self, user_id: str, conversation_id: str) -> tuple[Status, int]:
        """The member's own state, and the head."""
        ids = [conversation_id]
        rows, statuses, heads = await asyncio.gather(
            self._tables.rows(user_id, ids), self._tables.get(user_id, ids), self._tables.heads(ids)
        )
        if not rows or not heads:
            raise NotFound("no such conversation")
        return effective(statuses.get(conversation_id), rows[conversation_id]), heads[conversation_id].head

    async def _put(self, status: Status, *, tick: int) -> Status | None:
        """None: another device was first."""
        newer = msgspec.structs.replace(
            status,
            version=status.version + 1,
            read_seq=max(status.read_seq, tick),
            delivered_seq=max(status.delivered_seq, tick),
        )
        try:
            with self._doubts.of([status.user_id]):
                return await self._tables.put(newer)
        except Conflict:
            return None

    async def _follow(self, note: _Note, status: Status, seqs: Sequence[int], origin: str | None) -> ReadState:
        """The keyspace takes a read over."""
        user_id, conversation_id = status.user_id, status.conversation_id
        read = self._scripts.unread_read(
            user_id,
            conversation_id,
            version=status.version,
            cursor=status.cursor_seq,
            seen=max(status.cursor_seq, status.delivered_seq) if self._is_delivered_seen else status.cursor_seq,
            ranges=status.ranges,
            seqs=seqs,
        )
        calls: tuple[Call[Any], ...] = (read, self._taken_back(note), self._look(user_id, conversation_id))
        answer, _, found = await self._keyspace.run(calls)
        if answer.is_cold:
            return await self._rebuilt(note, status, origin)
        return self._synced(await self._described(user_id, conversation_id, found), user_id, origin)

    async def _rebuilt(self, note: _Note, status: Status, origin: str | None) -> ReadState:
        """The keyspace cannot take the change over: it reads the tables."""
        user_id, conversation_id = status.user_id, status.conversation_id
        await self._rebuilds.conversation(user_id, conversation_id, version=status.version)
        state = await self._unchanged(note, status)
        return self._synced(state, user_id, origin)

    async def _unchanged(self, note: _Note, status: Status) -> ReadState:
        """As the keyspace shows it, if it knows this version: what failed half-way before is mended by asking again."""
        user_id, conversation_id = status.user_id, status.conversation_id
        calls: tuple[Call[Any], ...] = (self._look(user_id, conversation_id), self._taken_back(note))
        found, _ = await self._keyspace.run(calls)
        if found is not None and found.mark is not None and found.mark.version < status.version:
            await self._rebuilds.conversation(user_id, conversation_id, version=status.version)
            found = await self._keyspace.one(self._look(user_id, conversation_id))
        return await self._described(user_id, conversation_id, found)

    def _synced(self, state: ReadState, user_id: str, origin: str | None) -> ReadState:
        """Tell the user's other devices."""
        self._router.push(user_id, ReadSynced(state), but=origin)
        self.on_change(user_id)
        return state
