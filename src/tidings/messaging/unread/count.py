"""Count: the rule of unread, applied to the tables. Nothing else decides a count.

An entry counts for a member if its kind counts and it is not marked as uncounted, if it is above the cursor and the
beginning of the member's history, and if it was not read singly. The member's own entries, deleted ones and those of
people whom the member has blocked do not count. A mention is an entry that counts and names the member.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

import msgspec

from tidings.bounds import PAGE_MAX, REBUILD_BIG_CHUNK, REBUILD_CHUNK
from tidings.clock import Clock
from tidings.errors import NotFound
from tidings.messaging.unread.ranges import effective, is_in, seen_up_to
from tidings.model import KINDS, Entry, Head, Ranges, Row, Status
from tidings.stores.keyspace.scripts.marks import Flags, Mark
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import Tables

_DAY_MS = 86_400_000
Standing = tuple[Row, Head, Status]  # of one member in one conversation
Seqs = tuple[list[int], list[int]]  # unread numbers, newest first, and those of them that mention the user
_NOTHING: Seqs = ([], [])


class Counted(msgspec.Struct, frozen=True):
    """One conversation of a user, counted from the tables."""

    conversation_id: str
    score_ms: int  # its place in the inbox
    pinned_ms: int
    ends_ms: int | None  # when its mute is over
    mark: Mark
    unread: list[int]  # newest first, at most the cap
    mentions: list[int]  # those of them that mention the user


def score_of(head: Head, row: Row) -> int:
    return max(0 if row.is_invited else head.last_ms, row.joined_ms, 1)


def is_shown(head: Head, row: Row) -> bool:
    """A direct conversation appears for the other side with its first message; a hidden one with the next."""
    return not row.is_hidden or head.last_seq > row.hidden_seq


def start_of(row: Row, head: Head, status: Status, *, is_delivered_seen: bool) -> int:
    """Return the number at or below which nothing counts for the member."""
    seen = seen_up_to(status, is_delivered_seen=is_delivered_seen)
    return max(seen, head.floor_seq, row.joined_seq if head.history == "joined" else 0)


def flags_of(
    row: Row, now_ms: int, *, is_all_loud: bool = False, line_ms: int = 0, is_blockless: bool = False
) -> Flags:
    """Return what the index must know of a row beside its counts. `is_all_loud`: muted ones count in the badge too;
    `line_ms`: when the conversation became large; `is_blockless`: the user has blocked nobody."""
    is_muted, is_archived = row.is_muted(now_ms), row.is_archived(now_ms)
    pinned_ms = max(row.pinned_ms, 1) if row.pinned and not is_archived else 0
    is_quiet = is_muted and not is_all_loud
    return Flags(row.kind, is_quiet, is_muted, is_archived, pinned_ms, line_ms, is_blockless)


def taken_out(entries: Sequence[Entry]) -> list[int]:
    """The numbers that these entries take out of the counts."""
    removed = [entry.target_seq or 0 for entry in entries if KINDS[entry.kind].uncounts]
    # The node that counted a message before it was deleted may have died before it took that back.
    return removed + [entry.seq_no for entry in entries if entry.is_deleted]


def line_of(row: Row, head: Head) -> int:
    """When the conversation became large for this user; 0: it is not. An invited user counts nothing in it."""
    return 0 if row.is_invited else head.large_ms


async def load_member(tables: Tables, user_id: str, conversation_id: str) -> Standing:
    """Read what the tables have of one member. Raises NotFound."""
    ids = [conversation_id]
    rows, heads, statuses = await asyncio.gather(
        tables.inboxes.rows(user_id, ids), tables.conversations.heads(ids), tables.statuses.get(user_id, ids)
    )
    if not rows or not heads:
        raise NotFound("no such conversation")
    row = rows[conversation_id]
    return row, heads[conversation_id], effective(statuses.get(conversation_id), row)


class Count:
    """Counts conversations from the tables."""

    def __init__(self, tables: Tables, scripts: Scripts, clock: Clock) -> None:
        self._tables = tables
        self._scripts = scripts
        self._clock = clock

    async def one(self, user_id: str, conversation_id: str, *, is_for_index: bool = False) -> Counted:
        """Count one conversation. Raises NotFound. `is_for_index`: the mark of a large one counts nothing."""
        return (await self._count([await load_member(self._tables, user_id, conversation_id)], is_for_index))[0]

    async def all(
        self, user_id: str, before_more: Callable[[], Awaitable[None]] | None = None, *, is_for_index: bool = False
    ) -> AsyncIterator[list[Counted]]:
        """Count every conversation that the user's inbox must show, in chunks.

        `before_more` runs before each chunk of an inbox that has more than one. `is_for_index`: as in `one`.
        """
        after_id, limit = "", REBUILD_CHUNK
        while rows := await self._tables.inboxes.scan(user_id, after_id=after_id, limit=limit):
            is_more, limit = len(rows) >= limit, REBUILD_BIG_CHUNK
            after_id = rows[-1].conversation_id
            size = limit if is_more else len(rows)
            for at in range(0, len(rows), size):
                if before_more is not None and is_more:
                    await before_more()
                yield await self._count_rows(user_id, rows[at : at + size], is_for_index)

    async def oldest_unread(self, user_id: str, conversation_id: str, *, after: int, ranges: Ranges) -> int | None:
        """Find the first unread in the log. Above the cap, the oldest numbers are not in the set."""
        limit = 4  # nearly always the next entry is it; a member who wrote many entries is read in longer steps
        blocked = await self.blocked(user_id)
        while entries := await self._tables.log.page(
            conversation_id, after=after, before=1 << 62, limit=limit, newest_first=False
        ):
            limit = PAGE_MAX
            for entry in entries:
                is_counted = entry.counts and entry.sender_id != user_id and entry.sender_id not in blocked
                if is_counted and not is_in(ranges, entry.seq_no):
                    return entry.seq_no
            after = entries[-1].seq_no
        return None

    async def _count_rows(self, user_id: str, rows: Sequence[Row], is_for_index: bool) -> list[Counted]:
        ids = [row.conversation_id for row in rows]
        heads, statuses = await asyncio.gather(
            self._tables.conversations.heads(ids), self._tables.statuses.get(user_id, ids)
        )
        members = [
            (row, heads[id_], effective(statuses.get(id_), row))
            for id_, row in zip(ids, rows, strict=True)
            if id_ in heads and is_shown(heads[id_], row)
        ]
        return await self._count(members, is_for_index)

    async def _count(self, members: Sequence[Standing], is_for_index: bool) -> list[Counted]:
        """Count conversations of one user. Only those with entries above the member's cursor are read in the log."""
        starts = [self._start(*member) for member in members]
        blocked = await self.blocked(members[0][0].user_id) if members else ()
        is_all_loud = any(row.muted for row, _, _ in members) and await self._is_all_loud(members[0][0].user_id)
        reads = {
            row.conversation_id: self._unread(row, status, after, blocked)
            for (row, head, status), after in zip(members, starts, strict=True)
            if head.last_seq > after and not row.is_requested and not row.is_invited
            if not (is_for_index and line_of(row, head))
        }
        unread = dict(zip(reads, await asyncio.gather(*reads.values()), strict=True))
        counted: list[Counted] = []
        for member, after in zip(members, starts, strict=True):
            tally_ms = line_of(*member[:2]) if is_for_index else 0
            is_blockless, seqs = tally_ms > 0 and not blocked, unread.get(member[0].conversation_id, _NOTHING)
            one = self._counted(member, after, seqs, tally_ms, is_all_loud=is_all_loud, is_blockless=is_blockless)
            counted.append(await one)
        return counted

    def _start(self, row: Row, head: Head, status: Status) -> int:
        return start_of(row, head, status, is_delivered_seen=self._scripts.is_delivered_seen)

    async def _counted(
        self, member: Standing, after: int, unread: Seqs, tally_ms: int, *, is_all_loud: bool, is_blockless: bool
    ) -> Counted:
        """Make the mark of one conversation. `tally_ms`: when it became large, if its counts are to come from its tally
        when somebody looks. Such a mark counts nothing."""
        (row, head, status), (found, mentions) = member, unread
        cap, now_ms = self._scripts.cap, self._clock.now_ms()
        kept = found[:cap]
        floor = first = 0
        if len(found) > cap:
            floor = found[cap]
            oldest = self.oldest_unread(status.user_id, status.conversation_id, after=after, ranges=status.ranges)
            first = await oldest or 0
            mentions = [seq_no for seq_no in mentions if seq_no > floor]
        elif kept:
            first = kept[-1]
        row = msgspec.structs.replace(row, last_seq=max(row.last_seq, head.last_seq)) if row.archived else row
        line_ms = line_of(row, head)
        flags = flags_of(row, now_ms, is_all_loud=is_all_loud, line_ms=line_ms, is_blockless=is_blockless)
        mark = Mark(
            version=status.version,
            cursor=status.cursor_seq,
            seen=after,
            count=len(kept),
            first=first,
            floor=floor,
            day=now_ms // _DAY_MS,
            mentions=len(mentions),
            first_mention=mentions[-1] if mentions else tally_ms,
            flags=flags.packed,
            ranges=status.ranges,
        )
        ends_ms = row.muted_until if flags.is_muted else None
        return Counted(row.conversation_id, score_of(head, row), flags.pinned_ms, ends_ms, mark, kept, mentions)

    async def _is_all_loud(self, user_id: str) -> bool:
        chosen = (await self._tables.people.preferences([user_id])).get(user_id)
        return chosen is not None and chosen.badge == "all"

    async def blocked(self, user_id: str) -> list[str]:
        """The people whose entries do not count for this user."""
        return [block.blocked_id for block in await self._tables.people.blocks_of(user_id)]

    async def _unread(self, row: Row, status: Status, after: int, but: Collection[str]) -> Seqs:
        """Return the unread entries and the mentions among them, newest first. Where there are more entries than the
        cap, there is one more than the cap."""
        width = sum(high - low + 1 for low, high in status.ranges)
        limit = self._scripts.cap + 1 + width
        entries = await self._tables.log.unread(row.conversation_id, row.user_id, after=after, limit=limit, but=but)
        left = [(seq_no, is_mention) for seq_no, is_mention in entries if not is_in(status.ranges, seq_no)]
        return [seq_no for seq_no, _ in left], [seq_no for seq_no, is_mention in left if is_mention]
