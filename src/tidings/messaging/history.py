"""Pages of a conversation's log, newest first, from any point, with cursors both ways.

A page never steps over an open slot (slots.py) and never shows what lies before a member's own beginning. Concurrent
readers of one page share one read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tidings.bounds import PAGE_MAX
from tidings.errors import BadCursor, BadRequest, NotFound, Unavailable
from tidings.messaging.access import Access, Roster
from tidings.messaging.receipts import Receipts
from tidings.messaging.slots import Slots
from tidings.messaging.unread import Unread
from tidings.model import Entry, HistoryPage
from tidings.stores.ports import Conversations

_SEQ_MAX = 1 << 53  # the largest number that every client holds exactly


class History:
    def __init__(
        self, access: Access, conversations: Conversations, slots: Slots, unread: Unread, receipts: Receipts
    ) -> None:
        self._access = access
        self._conversations = conversations
        self._slots = slots
        self._unread = unread
        self._receipts = receipts
        self._reads: dict[tuple[str, str, int, int], asyncio.Task[list[Entry]]] = {}

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
        roster = await self._access.authorize(user_id, conversation_id, "read")
        start = roster.visible_after(user_id)
        first_unread = await self._first_unread(user_id, conversation_id)
        if anchor is not None:
            around_seq = first_unread
        if around_seq is not None:
            entries = await self._around(conversation_id, around_seq, start, limit)
        elif after_seq is not None:
            entries = (await self._after(conversation_id, max(after_seq, start), limit))[::-1]
        else:
            entries = await self._before(conversation_id, before_seq or _SEQ_MAX, start, limit)
        return await self._page(user_id, roster, entries, start, first_unread, asked_after=after_seq)

    async def entry(self, user_id: str, conversation_id: str, seq_no: int) -> Entry:
        """One entry that the member may see. Raises NotFound."""
        roster = await self._access.authorize(user_id, conversation_id, "read")
        if seq_no <= roster.visible_after(user_id):
            raise NotFound("no such message")
        found = await self._after(conversation_id, seq_no - 1, 1)
        if not found or found[0].seq_no != seq_no:
            raise NotFound("no such message")
        return found[0]

    async def _first_unread(self, user_id: str, conversation_id: str) -> int | None:
        try:
            return await self._unread.oldest(user_id, conversation_id)
        except Unavailable:
            return (await self._unread.from_tables(user_id, conversation_id)).first_unread_seq

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
        entries = await self._shared(
            ("before", conversation_id, before, limit), lambda: self._slots.before(conversation_id, before, limit)
        )
        return [entry for entry in entries if entry.seq_no > start]

    async def _shared(
        self, key: tuple[str, str, int, int], read: Callable[[], Coroutine[Any, Any, list[Entry]]]
    ) -> list[Entry]:
        """Readers who ask while the same read waits for its turn get its answer."""
        task = self._reads.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(read(), name="history")
            self._reads[key] = task
            task.add_done_callback(lambda _: self._reads.pop(key, None))
        return await asyncio.shield(task)

    async def _page(
        self,
        user_id: str,
        roster: Roster,
        entries: list[Entry],
        start: int,
        first_unread: int | None,
        *,
        asked_after: int | None,
    ) -> HistoryPage:
        conversation_id = roster.head.conversation_id
        heads = await self._conversations.heads([conversation_id])
        head = heads[conversation_id].head if conversation_id in heads else 0
        delivered_all, read_all = await self._receipts.lowest(roster, but=user_id)
        oldest = entries[-1].seq_no if entries else 0
        newest = entries[0].seq_no if entries else max(asked_after or 0, start)
        return HistoryPage(
            entries=entries,
            next_before_seq=oldest if oldest > start + 1 else None,
            next_after_seq=newest if 0 < newest < head else None,
            first_unread_seq=first_unread,
            head=head,
            delivered_all_seq=delivered_all,
            read_all_seq=read_all,
        )


def _check_places(before_seq: int | None, after_seq: int | None, around_seq: int | None, anchor: str | None) -> None:
    if sum(place is not None for place in (before_seq, after_seq, around_seq, anchor)) > 1:
        raise BadRequest("give one of before_seq, after_seq, around_seq and anchor")
    if anchor not in (None, "first_unread"):
        raise BadRequest("anchor is first_unread")
    for place in (before_seq, after_seq, around_seq):
        if place is not None and not 0 <= place <= _SEQ_MAX:
            raise BadCursor("a seq is a number from 0 on")
