"""Explain: the reasons why the unread count of one conversation is what it is.

Every number of the log above the member's start has exactly one reason, by the rule of unread (count.py). So the
reasons add up: entries = other + deleted + uncounted + own + requested + blocked + read + unread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection

import msgspec

from tidings.bounds import PAGE_MAX
from tidings.clock import Clock
from tidings.messaging.access import Access
from tidings.messaging.unread.count import load_member, start_of
from tidings.messaging.unread.ranges import is_in
from tidings.messaging.unread.unread import Unread
from tidings.model import KINDS, Entry, Ranges, Row
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import Tables

_ENTRIES_MAX = 10_000  # read for one answer: as many as a count shows at most
_TRIES_MAX = 3  # messages that come between the log and the count make them differ for a moment


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`entries` of the log lie above `from_seq`; each is counted under one of the reasons, or is unread."""

    conversation_id: str
    head: int
    read_seq: int  # the member's cursor
    from_seq: int  # nothing at or below it was looked at: it was read, or delivered, or is no part of the history
    ranges: Ranges  # read singly, above the cursor
    entries: int
    other: int  # of kinds that never count, and numbers that nobody used
    deleted: int
    uncounted: int  # silent or imported messages, and replies that stay in their thread
    own: int
    requested: int  # of a stranger whose request was not accepted
    blocked: int
    read: int  # in a range
    unread: int
    unread_count: int | None  # as the inbox shows it
    unread_capped: bool
    muted: bool
    complete: bool = True  # False: the log above the cursor is longer than what was read


class Explain:
    def __init__(self, access: Access, tables: Tables, scripts: Scripts, unread: Unread, clock: Clock) -> None:
        self._access = access
        self._tables = tables
        self._scripts = scripts
        self._unread = unread
        self._clock = clock

    async def explain(self, user_id: str, conversation_id: str, pay: Callable[[int], Awaitable[object]]) -> Explanation:
        """Read the log above the member's start. `pay` charges for its rows, or refuses. Raises NotFound."""
        await self._access.authorize(user_id, conversation_id, "read")
        found = await self._once(user_id, conversation_id, pay)
        for _ in range(_TRIES_MAX - 1):
            if found.unread == found.unread_count or not found.complete or found.unread_capped:
                break
            found = await self._once(user_id, conversation_id, pay)
        return found

    async def _once(self, user_id: str, id_: str, pay: Callable[[int], Awaitable[object]]) -> Explanation:
        row, head, status = await load_member(self._tables, user_id, id_)
        start = start_of(row, head, status, is_delivered_seen=self._scripts.is_delivered_seen)
        from_seq = max(start, head.head - _ENTRIES_MAX)
        await pay(max(head.head - from_seq, 0))
        blocked = {block.blocked_id for block in await self._tables.people.blocks_of(user_id)}
        reasons: Counter[str] = Counter()
        after = from_seq
        while page := await self._tables.log.page(
            id_, after=after, before=head.head + 1, limit=PAGE_MAX, newest_first=False
        ):
            reasons.update(_reason(entry, row, status.ranges, blocked) for entry in page)
            after = page[-1].seq_no
        state = await self._unread.state(user_id, id_)
        names = ("other", "deleted", "uncounted", "own", "requested", "blocked", "read", "unread")
        return Explanation(
            conversation_id=id_,
            head=head.head,
            read_seq=status.cursor_seq,
            from_seq=from_seq,
            ranges=status.ranges,
            entries=reasons.total(),
            **{name: reasons[name] for name in names},
            unread_count=state.unread_count,
            unread_capped=state.unread_capped,
            muted=row.is_muted(self._clock.now_ms()),
            complete=from_seq == start,
        )


def _reason(entry: Entry, row: Row, ranges: Ranges, blocked: Collection[str]) -> str:
    """The reason why the entry does not count for the member; `unread` where it counts."""
    reasons = {
        "other": not KINDS[entry.kind].counts,
        "deleted": entry.is_deleted,
        "uncounted": entry.is_uncounted,
        "own": entry.sender_id == row.user_id,
        "requested": row.is_requested,
        "blocked": entry.sender_id in blocked,
        "read": is_in(ranges, entry.seq_no),
    }
    return next((reason for reason, is_so in reasons.items() if is_so), "unread")
