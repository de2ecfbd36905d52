"""History: pages of a conversation's log, newest first, from any point, with cursors both ways.

A page never steps over a gap (log.py) and never shows what lies before a member's own beginning. It has at most
PAGE_MAX entries and PAGE_BYTES_MAX bytes, and its cursors go on where it was cut. Concurrent readers of one page share
one read, but never a read that began before they asked. So a reader sees every entry that was acknowledged before the
request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tidings.bounds import CONVERSATIONS_CACHED_MAX, PAGE_BYTES_MAX, PAGE_MAX
from tidings.errors import BadCursor, BadRequest, NotFound
from tidings.messaging.access import Access, Admitted
from tidings.messaging.log import Log
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.reading.receipts import Receipts
from tidings.messaging.summaries import Summaries
from tidings.messaging.unread.unread import Unread
from tidings.model import Beside, Entry, HistoryPage
from tidings.stores.keyspace.call import Call
from tidings.stores.tables.ports import Conversations
from tidings.tasks import Recent

_SEQ_MAX = 1 << 53  # the largest number that every client holds exactly
_BARE_BYTES = 2_048  # an entry with the longest ids and all flags, and without what its author wrote, in JSON

_encode = msgspec.json.Encoder().encode

Read = Callable[[], Awaitable[list[Entry]]]
Place = tuple[str, str, int, int]  # which way, conversation, from where, how many


class _Shelf:
    """A read under way, and the one that begins after it."""

    __slots__ = ("done", "later")

    def __init__(self) -> None:
        self.done: asyncio.Event | None = None  # made when somebody waits
        self.later: asyncio.Task[list[Entry]] | None = None


class ShownEntry(NamedTuple):
    """One entry as a page shows it. `is_hidden`: the reader has blocked its sender."""

    entry: Entry
    is_hidden: bool
    beside: Beside | None


@dataclass(eq=False, repr=False)
class History:
    access: Access
    blocks: Blocks
    conversations: Conversations
    log: Log
    unread: Unread
    receipts: Receipts
    summaries: Summaries

    def __post_init__(self) -> None:
        self._shelves: dict[Place, _Shelf] = {}
        # (conversation, when it was made) -> its head, as the tables had it last. A head never falls.
        self._heads = Recent[tuple[str, int], int](CONVERSATIONS_CACHED_MAX)

    async def page(
        self,
        user_id: str,
        conversation_id: str,
        *,
        before_seq: int | None = None,
        after_seq: int | None = None,
        around_seq: int | None = None,
        anchor: str | None = None,
        limit: int = 20,
    ) -> HistoryPage:
        """Return the page at one of the four places. Without a place it is the newest page."""
        _check_places(before_seq, after_seq, around_seq, anchor)
        limit = min(max(limit, 1), PAGE_MAX)
        admitted = await self._admit(user_id, conversation_id)
        start = admitted.member_list.visible_after(user_id)
        first_unread, first_mention = await self._firsts(user_id, conversation_id, admitted)
        if anchor is not None:
            around_seq = first_unread if anchor == "first_unread" else first_mention
        edge = start  # where an empty page stands
        if around_seq is not None:
            entries = await self._around(conversation_id, around_seq, start, limit)
            edge = max(around_seq - 1, start)
        elif after_seq is not None:
            edge = max(after_seq, start)
            entries = (await self._after(conversation_id, edge, limit))[::-1]
        else:
            entries = await self._before(conversation_id, _SEQ_MAX if before_seq is None else before_seq, start, limit)
            edge = start if before_seq is None else max(before_seq - 1, start)
        _, entries = await self.access.visible(admitted.member_list, user_id, entries)
        if before_seq is not None and not entries:
            start = edge  # nothing is there
        return await self._page(user_id, admitted, entries, start, edge, first_unread)

    async def entry(self, user_id: str, conversation_id: str, seq_no: int) -> Entry:
        """Return one entry that the member may see. Raises NotFound."""
        member_list = await self.access.authorize(user_id, conversation_id, "read")
        if seq_no <= member_list.visible_after(user_id):
            raise NotFound("no such message")
        found = await self._after(conversation_id, seq_no - 1, 1)
        if not found or found[0].seq_no != seq_no:
            raise NotFound("no such message")
        _, (entry,) = await self.access.visible(member_list, user_id, found)
        return entry

    async def shown(self, user_id: str, conversation_id: str, seq_no: int) -> ShownEntry:
        """Return one entry with all that a page shows beside it. Raises NotFound."""
        entry = await self.entry(user_id, conversation_id, seq_no)
        beside = await self.summaries.beside(user_id, conversation_id, [entry], has_summaries=True)
        return ShownEntry(entry, entry.sender_id in await self.blocks.blocked_by(user_id), beside.get(seq_no))

    async def _admit(self, user_id: str, conversation_id: str) -> Admitted:
        """Authorize, and read in the same round trip the first unread and the receipt marks."""
        beside: list[Call[Any]] = [self.unread.firsts_call(user_id, conversation_id)]
        if (member_list := self.access.cached(conversation_id)) is not None:
            beside.append(self.receipts.look(member_list, but=user_id))
        return await self.access.authorize_beside(user_id, conversation_id, "read", *beside)

    async def _firsts(self, user_id: str, conversation_id: str, admitted: Admitted) -> tuple[int | None, int | None]:
        """Return the first unread message and the first unread mention."""
        if admitted.beside is None:
            state = await self.unread.from_tables(user_id, conversation_id)
            return state.first_unread_seq, state.first_mention_seq
        return await self.unread.firsts(user_id, conversation_id, admitted.beside[0])

    async def _page(
        self, user_id: str, admitted: Admitted, entries: list[Entry], start: int, edge: int, first_unread: int | None
    ) -> HistoryPage:
        head = await self._head(admitted, entries)
        conversation_id = admitted.member_list.head.conversation_id
        delivered_all, read_all = await self._receipt_marks(user_id, admitted)
        oldest = entries[-1].seq_no if entries else min(edge, head) + 1
        newest = entries[0].seq_no if entries else edge
        return HistoryPage(
            entries=entries,
            next_before_seq=oldest if oldest > start + 1 else None,
            next_after_seq=newest if newest < head else None,
            first_unread_seq=first_unread,
            head=head,
            delivered_all_seq=delivered_all,
            read_all_seq=read_all,
            blocked=await self.blocks.blocked_by(user_id),
            beside=await self.summaries.beside(user_id, conversation_id, entries, admitted.has_summaries),
        )

    async def _receipt_marks(self, user_id: str, admitted: Admitted) -> tuple[int, int]:
        """Return the lowest marks. An answer for another member list than this one counts as cold."""
        if admitted.member_list.is_unanswered(user_id):
            return 0, 0
        if admitted.beside is not None and len(admitted.beside) > 1 and admitted.beside[1] is not None:
            lowest: tuple[int, int] = admitted.beside[1]
            return lowest
        return await self.receipts.lowest(admitted.member_list, but=user_id)

    async def _head(self, admitted: Admitted, entries: list[Entry]) -> int:
        """Return the highest known number. Where there may be a higher one, the head row decides."""
        row, newest = admitted.member_list.head, entries[0].seq_no if entries else 0
        name = row.conversation_id, row.created_ms
        known = max(row.head, newest, self._heads.get(name, 0))
        if admitted.top > 0 and known >= admitted.top:
            return known
        if admitted.top == 0 and row.head >= newest:
            return row.head
        heads = await self.conversations.heads([row.conversation_id])
        if row.conversation_id not in heads:
            return 0
        head = heads[row.conversation_id]
        self._heads.put((head.conversation_id, head.created_ms), head.head)
        return head.head

    # --- reads --------------------------------------------------------------------------------------

    async def _around(self, conversation_id: str, seq_no: int, start: int, limit: int) -> list[Entry]:
        """Return half a page before the number and half a page from it on."""
        most = PAGE_BYTES_MAX // 2
        later = await self._after(conversation_id, max(seq_no - 1, start), limit - limit // 2, most)
        earlier = await self._before(conversation_id, max(seq_no, start + 1), start, limit // 2, most)
        return later[::-1] + earlier

    async def _after(
        self, conversation_id: str, after: int, limit: int, bytes_max: int = PAGE_BYTES_MAX
    ) -> list[Entry]:
        entries = await self._shared(
            ("after", conversation_id, after, limit), lambda: self.log.after(conversation_id, after, limit)
        )
        return _within(entries, bytes_max)

    async def _before(
        self, conversation_id: str, before: int, start: int, limit: int, bytes_max: int = PAGE_BYTES_MAX
    ) -> list[Entry]:
        if limit < 1:
            return []
        entries = await self._shared(
            ("before", conversation_id, before, limit), lambda: self.log.before(conversation_id, before, limit)
        )
        entries = _within(entries, bytes_max)
        if entries and entries[-1].seq_no <= start:
            return [entry for entry in entries if entry.seq_no > start]
        return entries

    async def _shared(self, place: Place, read: Read) -> list[Entry]:
        """Share reads. Callers that come while a read is under way share the next one."""
        shelf = self._shelves.get(place)
        if shelf is None:
            return await self._lead(place, read)
        if shelf.later is None:
            shelf.done = asyncio.Event()
            later = self._read_later(shelf.done, place, read)
            shelf.later = asyncio.get_running_loop().create_task(later, name="history")
        return await asyncio.shield(shelf.later)

    async def _lead(self, place: Place, read: Read) -> list[Entry]:
        shelf = self._shelves[place] = _Shelf()
        try:
            return await read()
        finally:
            if self._shelves.get(place) is shelf:
                del self._shelves[place]
            if shelf.done is not None:
                shelf.done.set()

    async def _read_later(self, done: asyncio.Event, place: Place, read: Read) -> list[Entry]:
        await done.wait()
        return await self._lead(place, read)


def _within(entries: list[Entry], bytes_max: int) -> list[Entry]:
    """The first entries that fit into the bytes, at least one. A reader goes on from the last with its cursor."""
    if sum(map(_bytes_at_most, entries)) <= bytes_max:
        return entries
    left = bytes_max
    for position, entry in enumerate(entries):
        left -= len(_encode(entry))
        if left < 0:
            return entries[: position or 1]
    return entries


def _bytes_at_most(entry: Entry) -> int:
    """The bytes of an entry, or more: six for each character of a text. Only what has more than a text is encoded."""
    one, more = entry.content, entry.member or entry.mentions
    if more or (one and (one.data or one.files or one.mentions or one.reactions or one.conversation)):
        return len(_encode(entry))
    return _BARE_BYTES + 6 * len((one and one.text) or "")


def _check_places(before_seq: int | None, after_seq: int | None, around_seq: int | None, anchor: str | None) -> None:
    if (before_seq, after_seq, around_seq, anchor).count(None) < 3:
        raise BadRequest("give one of before_seq, after_seq, around_seq and anchor")
    if anchor not in (None, "first_unread", "first_mention"):
        raise BadRequest("anchor is first_unread or first_mention")
    for place in (before_seq, after_seq, around_seq):
        if place is not None and not 0 <= place <= _SEQ_MAX:
            raise BadCursor("a seq is a number from 0 on")
