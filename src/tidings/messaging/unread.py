"""A member's own unread state: the cursor, the sparse ranges above it, and the counts that follow from them.

The table decides: a change is a new version of the member's row, put only on top of the version it was made from. The
keyspace follows in the order of versions, or goes COLD and is rebuilt. So redelivery, reordering and two devices at
once leave the count exact. Called by the gateway; ticks are receipts.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from tidings.bounds import PAGE_MAX, READ_RANGES_MAX
from tidings.errors import BadRequest, Conflict, TooLarge, Unavailable
from tidings.messaging.access import Access
from tidings.messaging.rebuild import Rebuilds, Tables, effective, is_in
from tidings.model import Ranges, ReadState, ReadSynced, Row, Status, Totals
from tidings.routing.router import Router
from tidings.stores.calls import Keyspace
from tidings.stores.scripts import Mark, Scripts

_CAS_TRIES_MAX = 50  # devices of one user changing one row at the same moment


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
        *,
        is_delivered_seen: bool,
    ) -> None:
        self._access = access
        self._tables = tables
        self._keyspace = keyspace
        self._scripts = scripts
        self._rebuilds = rebuilds
        self._router = router
        self.on_read: Callable[[str, str, int], None] = lambda user_id, conversation_id, seq_no: None  # receipts.py
        self._is_delivered_seen = is_delivered_seen

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
        await self._access.authorize(user_id, conversation_id, "read")
        head = await self._head(conversation_id)
        if up_to_ts is not None:
            up_to_seq = await self._tables.seq_at(conversation_id, up_to_ts)
        wanted = [seq for seq in seqs or () if 0 < seq <= head]
        up_to = min(up_to_seq, head) if up_to_seq is not None else 0
        for _ in range(_CAS_TRIES_MAX):
            before = await self._status(user_id, conversation_id)
            after = read_these(before, wanted) if seqs is not None else read_up_to(before, up_to)
            if (after.cursor_seq, after.ranges) == (before.cursor_seq, before.ranges):
                return await self.state(user_id, conversation_id)
            if (stored := await self._put(after, tick=up_to)) is not None:
                if up_to > 0:
                    self.on_read(user_id, conversation_id, up_to)
                return await self._follow(stored, wanted, origin)
        raise Unavailable("the read mark changes too fast")

    async def mark_unread(
        self, user_id: str, conversation_id: str, *, from_seq: int, origin: str | None = None
    ) -> ReadState:
        """Everything from there on is unread again. Ticks stay."""
        if from_seq < 1:
            raise BadRequest("from_seq begins at 1")
        await self._access.authorize(user_id, conversation_id, "read")
        for _ in range(_CAS_TRIES_MAX):
            before = await self._status(user_id, conversation_id)
            after = unread_from(before, from_seq)
            if (after.cursor_seq, after.ranges) == (before.cursor_seq, before.ranges):
                return await self.state(user_id, conversation_id)
            if await self._put(after, tick=0) is not None:
                mark = await self._rebuilds.conversation(user_id, conversation_id)
                return await self._synced(user_id, conversation_id, mark, origin)
        raise Unavailable("the read mark changes too fast")

    async def delivered(self, user_id: str, conversation_id: str, seq_no: int) -> None:
        """Under unread.policy = when_offline, what was delivered does not count. Call after the tick is stored."""
        if not self._is_delivered_seen:
            return
        mark = await self._rebuilds.mark(user_id, conversation_id)
        if mark is not None and mark.seen < seq_no:
            await self._keyspace.one(
                self._scripts.unread_read(
                    user_id,
                    conversation_id,
                    version=mark.version,
                    cursor=mark.cursor,
                    seen=seq_no,
                    ranges=mark.ranges,
                    seqs=(),
                )
            )

    async def state(self, user_id: str, conversation_id: str) -> ReadState:
        """As it stands, rebuilt first if it is COLD. The caller has authorized."""
        mark = await self._rebuilds.mark(user_id, conversation_id)
        if mark is None:
            mark = await self._rebuilds.conversation(user_id, conversation_id)
        totals = await self.totals(user_id)
        return await self.describe(user_id, conversation_id, mark, totals.total_unread)

    async def oldest(self, user_id: str, conversation_id: str) -> int | None:
        """first_unread_seq alone."""
        mark = await self._rebuilds.mark(user_id, conversation_id)
        if mark is None:
            mark = await self._rebuilds.conversation(user_id, conversation_id)
        if mark.first or not mark.shown(self._scripts.cap):
            return mark.first or None
        return await self.first_unread(user_id, conversation_id, mark)

    async def from_tables(self, user_id: str, conversation_id: str) -> ReadState:
        """The same without the keyspace, for when it is down; totals are not known then."""
        built = await self._rebuilds.read(user_id, conversation_id)
        return await self.describe(user_id, conversation_id, built.mark, None)

    async def totals(self, user_id: str) -> Totals:
        """The badge, rebuilt first if it is COLD."""
        for _ in range(3):
            page = await self._keyspace.one(self._scripts.inbox_page(user_id, limit=1, after=None))
            if page is None:
                await self._rebuilds.user(user_id)
            elif page.cold > 0:
                await self._rebuilds.missing(user_id)
            else:
                return Totals(page.total_unread, page.unread_conversations)
        raise Unavailable("the totals are being rebuilt")

    async def describe(
        self, user_id: str, conversation_id: str, mark: Mark, total_unread: int | None
    ) -> ReadState:
        """A mark in the words of the wire."""
        first = mark.first or None
        if first is None and mark.shown(self._scripts.cap) > 0:
            first = await self.first_unread(user_id, conversation_id, mark)
        return ReadState(
            conversation_id=conversation_id,
            read_seq=mark.cursor,
            unread_count=mark.shown(self._scripts.cap),
            unread_capped=mark.is_capped,
            first_unread_seq=first,
            total_unread=total_unread,
        )

    async def first_unread(self, user_id: str, conversation_id: str, mark: Mark) -> int | None:
        """From the log: for counts above the cap, whose oldest are not in the set."""
        after = mark.seen
        while entries := await self._tables.page(
            conversation_id, after=after, before=1 << 62, limit=PAGE_MAX, newest_first=False
        ):
            for entry in entries:
                is_counted = entry.kind == "message" and not entry.is_deleted and entry.sender_id != user_id
                if is_counted and not is_in(mark.ranges, entry.seq_no):
                    return entry.seq_no
            after = entries[-1].seq_no
        return None

    async def _head(self, conversation_id: str) -> int:
        heads = await self._tables.heads([conversation_id])
        return heads[conversation_id].head if conversation_id in heads else 0

    async def _status(self, user_id: str, conversation_id: str) -> Status:
        rows = await self._tables.rows(user_id, [conversation_id])
        statuses = await self._tables.get(user_id, [conversation_id])
        row = rows.get(conversation_id)
        if row is None:
            row = Row(user_id=user_id, conversation_id=conversation_id, kind="group")
        return effective(statuses.get(conversation_id), row)

    async def _put(self, status: Status, *, tick: int) -> Status | None:
        """None: another device was first."""
        newer = msgspec.structs.replace(
            status,
            version=status.version + 1,
            read_seq=max(status.read_seq, tick),
            delivered_seq=max(status.delivered_seq, tick),
        )
        try:
            return await self._tables.put(newer)
        except Conflict:
            return None

    async def _follow(self, status: Status, seqs: Sequence[int], origin: str | None) -> ReadState:
        """The keyspace takes the change over."""
        user_id, conversation_id = status.user_id, status.conversation_id
        seen = max(status.cursor_seq, status.delivered_seq) if self._is_delivered_seen else status.cursor_seq
        answer = await self._keyspace.one(
            self._scripts.unread_read(
                user_id,
                conversation_id,
                version=status.version,
                cursor=status.cursor_seq,
                seen=seen,
                ranges=status.ranges,
                seqs=seqs,
            )
        )
        if answer.is_cold:
            mark = await self._rebuilds.conversation(user_id, conversation_id)
        else:
            mark = await self._rebuilds.mark(user_id, conversation_id) or await self._rebuilds.conversation(
                user_id, conversation_id
            )
        return await self._synced(user_id, conversation_id, mark, origin)

    async def _synced(self, user_id: str, conversation_id: str, mark: Mark, origin: str | None) -> ReadState:
        """Tell the user's other devices."""
        totals = await self.totals(user_id)
        state = await self.describe(user_id, conversation_id, mark, totals.total_unread)
        self._router.push(user_id, ReadSynced(state), but=origin)
        return state
