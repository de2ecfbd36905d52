"""Pages of a conversation's log, newest first, from any point, with cursors both ways.

A page never steps over an open slot (slots.py) and never shows what lies before a member's own beginning. Concurrent
readers of one page share one read, but never one that began before they asked: whoever looks sees every entry that was
acknowledged before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tidings.bounds import PAGE_MAX
from tidings.errors import BadCursor, BadRequest, NotFound
from tidings.messaging.access import Access, Admitted
from tidings.messaging.receipts import Receipts
from tidings.messaging.slots import Slots
from tidings.messaging.unread import Unread
from tidings.model import Entry, HistoryPage
from tidings.stores.calls import Call
from tidings.stores.ports import Conversations

_SEQ_MAX = 1 << 53  # the largest number that every client holds exactly

Read = Callable[[], Awaitable[list[Entry]]]
Place = tuple[str, str, int, int]  # which way, conversation, from where, how many


class _Shelf:
    """A read under way, and the one that begins after it."""

    __slots__ = ("done", "later")

    def __init__(self) -> None:
        self.done: asyncio.Event | None = None  # made when somebody waits
        self.later: asyncio.Task[list[Entry]] | None = None


class History:
    def __init__(
        self, access: Access, conversations: Conversations, slots: Slots, unread: Unread, receipts: Receipts
    ) -> None:
        self._access = access
        self._conversations = conversations
        self._slots = slots
        self._unread = unread
        self._receipts = receipts
        self._shelves: dict[Place, _Shelf] = {}

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
        """At most one of the four places; none: the newest page."""
        _check_places(before_seq, after_seq, around_seq, anchor)
        limit = min(max(limit, 1), PAGE_MAX)
        admitted = await self._admit(user_id, conversation_id)
        start = admitted.roster.visible_after(user_id)
        first_unread = await self._first_unread(user_id, conversation_id, admitted)
        if anchor is not None:
            around_seq = first_unread
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
        _, entries = await self._access.visible(admitted.roster, user_id, entries)
        if before_seq is not None and not entries:
            start = edge  # nothing is there
        return await self._page(user_id, admitted, entries, start, edge, first_unread)

    async def entry(self, user_id: str, conversation_id: str, seq_no: int) -> Entry:
        """One entry that the member may see. Raises NotFound."""
        roster = await self._access.authorize(user_id, conversation_id, "read")
        if seq_no <= roster.visible_after(user_id):
            raise NotFound("no such message")
        found = await self._after(conversation_id, seq_no - 1, 1)
        if not found or found[0].seq_no != seq_no:
            raise NotFound("no such message")
        return found[0]

    async def _admit(self, user_id: str, conversation_id: str) -> Admitted:
        """Authorized; in the same round trip the first unread, and the ticks for the member list as we have it."""
        beside: list[Call[Any]] = [self._unread.glance(user_id, conversation_id)]
        if (roster := self._access.cached(conversation_id)) is not None:
            beside.append(self._receipts.look(roster, but=user_id))
        return await self._access.authorize_beside(user_id, conversation_id, "read", *beside)

    async def _first_unread(self, user_id: str, conversation_id: str, admitted: Admitted) -> int | None:
        if admitted.beside is None:
            return (await self._unread.from_tables(user_id, conversation_id)).first_unread_seq
        return await self._unread.first_of(user_id, conversation_id, admitted.beside[0])

    async def _page(
        self,
        user_id: str,
        admitted: Admitted,
        entries: list[Entry],
        start: int,
        edge: int,
        first_unread: int | None,
    ) -> HistoryPage:
        head = await self._head(admitted, entries)
        delivered_all, read_all = await self._ticks(user_id, admitted)
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
        )

    async def _ticks(self, user_id: str, admitted: Admitted) -> tuple[int, int]:
        """An answer for another member list than this one is COLD."""
        if admitted.beside is not None and len(admitted.beside) > 1 and admitted.beside[1] is not None:
            lowest: tuple[int, int] = admitted.beside[1]
            return lowest
        return await self._receipts.lowest(admitted.roster, but=user_id)

    async def _head(self, admitted: Admitted, entries: list[Entry]) -> int:
        """The highest number that we know of, unless there may be a higher one; then the head row knows."""
        row, newest = admitted.roster.head, entries[0].seq_no if entries else 0
        if admitted.top > 0 and max(row.head, newest) >= admitted.top:
            return max(row.head, newest)
        if admitted.top == 0 and row.head >= newest:
            return row.head
        heads = await self._conversations.heads([row.conversation_id])
        return heads[row.conversation_id].head if row.conversation_id in heads else 0

    # --- reads --------------------------------------------------------------------------------------

    async def _around(self, conversation_id: str, seq_no: int, start: int, limit: int) -> list[Entry]:
        """Half before, half from it on."""
        later = await self._after(conversation_id, max(seq_no - 1, start), limit - limit // 2)
        earlier = await self._before(conversation_id, max(seq_no, start + 1), start, limit // 2)
        return later[::-1] + earlier

    async def _after(self, conversation_id: str, after: int, limit: int) -> list[Entry]:
        return await self._shared(
            ("after", conversation_id, after, limit), lambda: self._slots.after(conversation_id, after, limit)
        )

    async def _before(self, conversation_id: str, before: int, start: int, limit: int) -> list[Entry]:
        if limit < 1:
            return []
        entries = await self._shared(
            ("before", conversation_id, before, limit), lambda: self._slots.before(conversation_id, before, limit)
        )
        if entries and entries[-1].seq_no <= start:
            return [entry for entry in entries if entry.seq_no > start]
        return entries

    async def _shared(self, place: Place, read: Read) -> list[Entry]:
        """Who asks while a read is under way shares the next one with all others who do."""
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


def _check_places(before_seq: int | None, after_seq: int | None, around_seq: int | None, anchor: str | None) -> None:
    if (before_seq, after_seq, around_seq, anchor).count(None) < 3:
        raise BadRequest("give one of before_seq, after_seq, around_seq and anchor")
    if anchor not in (None, "first_unread"):
        raise BadRequest("anchor is first_unread")
    for place in (before_seq, after_seq, around_seq):
        if place is not None and not 0 <= place <= _SEQ_MAX:
            raise BadCursor("a seq is a number from 0 on")
