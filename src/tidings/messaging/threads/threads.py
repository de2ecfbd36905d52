"""Threads: the list of the threads that a user follows, the replies of one thread, and what a root shows of its thread.

The list is a page of the index of threads, so the list of unread threads has exactly as many rows as the total says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec.structs import replace

from tidings.bounds import PAGE_DEFAULT, PAGE_MAX
from tidings.clock import Clock
from tidings.errors import BadCursor, NotFound, Unavailable
from tidings.messaging.access import Access, MemberList, check, seen_by
from tidings.messaging.log import NEWEST, Log
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.reading.inbox import decode_cursor, encode_cursor
from tidings.messaging.reading.receipts import Receipts
from tidings.messaging.summaries import Summaries
from tidings.messaging.threads.follows import Follows
from tidings.messaging.threads.records import Thread, is_thread_id, parts_of, read_replies, read_threads, thread_id
from tidings.messaging.threads.unread import ThreadUnread
from tidings.messaging.unread.rebuild import ANY_VERSION, Rebuilds
from tidings.model import Beside, Entry, HistoryPage, ReadState
from tidings.stores.keyspace.call import Keyspace
from tidings.stores.keyspace.scripts.answers import Page, Place
from tidings.stores.keyspace.scripts.marks import Mark
from tidings.stores.keyspace.scripts.messaging import Scripts, filter_top
from tidings.stores.tables.records import Records

Filter = Literal["unread", "all"]
_PART = {"all": "inbox", "unread": "unread"}  # the part of the index that a filter shows
_TRIES_MAX = 20  # a page that meets something cold is read again after the rebuild
_SEQ_MAX = 1 << 53


class ThreadItem(msgspec.Struct, frozen=True):
    """One line of the list."""

    conversation_id: str
    thread_seq: int
    root: Entry | None  # None: the user may not see it, or it went with time
    is_hidden: bool  # the user has blocked the author of the root
    thread: Thread
    unread_count: int
    first_unread_seq: int | None
    beside: Beside | None = None  # what is shown beside the root


class ThreadPage(msgspec.Struct, frozen=True):
    items: list[ThreadItem]
    next_cursor: str | None
    unread_threads: int


@dataclass(eq=False, repr=False)
class Threads:
    access: Access
    log: Log
    blocks: Blocks
    summaries: Summaries
    records: Records
    keyspace: Keyspace
    scripts: Scripts
    rebuilds: Rebuilds
    unread: ThreadUnread
    follows: Follows
    receipts: Receipts
    clock: Clock

    def __post_init__(self) -> None:
        self.mark_read, self.mark_unread = self.unread.read, self.unread.unread

    # --- the list -----------------------------------------------------------------------------------

    async def page(self, user_id: str, *, limit: int, cursor: str | None, filter_name: Filter) -> ThreadPage:
        """A page of the user's threads, the latest reply first. Raises BadCursor, Unavailable."""
        part = _PART[filter_name]
        after = decode_cursor(user_id, cursor, is_thread_id) if cursor else filter_top(part)
        if after.part != part:
            raise BadCursor()  # of another filter
        for _ in range(_TRIES_MAX):
            page = await self._page(user_id, min(max(limit, 1), PAGE_MAX), after)
            threads = await read_threads(self.records, [one.conversation_id for one in page.listed])
            places = {one.conversation_id: parts_of(one.conversation_id)[0] for one in page.listed}
            lists = await self.access.read(list(dict.fromkeys(places.values())))
            gone = [id_ for id_, in_ in places.items() if not _is_shown(user_id, threads.get(id_), lists.get(in_))]
            if not gone:
                items = await asyncio.gather(
                    *(
                        self._item(user_id, one.conversation_id, one.mark, threads, lists[places[one.conversation_id]])
                        for one in page.listed
                    )
                )
                beside = await self.summaries.beside_each(user_id, [item.root for item in items if item.root])
                items = [replace(item, beside=beside.get((item.conversation_id, item.thread_seq))) for item in items]
                next_cursor = encode_cursor(user_id, page.next) if page.next else None
                return ThreadPage(items, next_cursor, page.unread_conversations)
            await self._drop(user_id, gone)
        raise Unavailable("the threads are being rebuilt")

    async def _page(self, user_id: str, limit: int, after: Place) -> Page:
        for _ in range(_TRIES_MAX):
            page = await self.keyspace.one(self.scripts.threads.inbox_page(user_id, limit=limit, after=after))
            if page is None:
                await self.rebuilds.user(user_id)
            elif page.cold > 0:
                await self.rebuilds.cold_conversations(user_id)
            else:
                return page
        raise Unavailable("the threads are being rebuilt")

    async def _item(
        self, user_id: str, id_: str, mark: Mark | None, threads: dict[str, Thread], member_list: MemberList
    ) -> ThreadItem:
        assert mark is not None  # nothing on the page is cold
        conversation_id, thread_seq = parts_of(id_)
        start, thread = member_list.visible_after(user_id), threads[id_]
        is_seen = thread_seq > start
        root = await self.log.entry(conversation_id, thread_seq) if is_seen else None
        root = seen_by(user_id, root, self.clock.now_ms()) if root is not None else None
        is_hidden = root is not None and root.sender_id in await self.blocks.blocked_by(user_id)
        first = await self.unread.first(user_id, id_, mark)
        thread = thread if is_seen else await self._seen_part(id_, thread, start)
        return ThreadItem(
            conversation_id, thread_seq, root, is_hidden, thread, mark.shown(self.scripts.threads.cap), first
        )

    async def _seen_part(self, id_: str, thread: Thread, after: int) -> Thread:
        """The thread with the replies above this number alone. They are counted up to the cap of unread counts."""
        count, cap = 0, self.scripts.threads.cap
        while count < cap and (found := await read_replies(self.records, id_, after=after, newest_first=False)):
            count, after = count + sum(not reply.is_deleted for _, reply in found), found[-1][0]
        return replace(thread, replies=min(count, cap))

    async def _drop(self, user_id: str, ids: Sequence[str]) -> None:
        """Drop listed threads that the user does not follow: the keyspace missed it."""
        for id_ in ids:
            try:
                await self.rebuilds.conversation(user_id, id_, version=ANY_VERSION)
            except NotFound:
                continue

    async def read_all(self, user_id: str, conversation_id: str, origin: str | None = None) -> ReadState:
        """Mark every thread of a conversation that the user follows as read. Returns the state of the conversation."""
        await self.access.authorize(user_id, conversation_id, "read")
        after: Place | None = filter_top("unread")
        unread: list[str] = []
        while after is not None:
            page = await self._page(user_id, PAGE_MAX, after)
            unread += [one.conversation_id for one in page.listed]
            after = page.next
        for in_, thread_seq in map(parts_of, unread):
            if in_ == conversation_id:
                await self.unread.read(user_id, in_, thread_seq, up_to_seq=_SEQ_MAX, origin=origin)
        return await self.unread.of_conversation(user_id, conversation_id)

    # --- one thread ---------------------------------------------------------------------------------

    async def replies(
        self,
        user_id: str,
        conversation_id: str,
        thread_seq: int,
        *,
        before_seq: int | None = None,
        after_seq: int | None = None,
        limit: int = 20,
    ) -> HistoryPage:
        """A page of the replies of one thread, newest first. Raises NotFound where the member sees nothing of it.

        Nothing above an open gap is shown: the gap may become a reply, and a reader who pages on would miss it.
        """
        await self.access.authorize(user_id, conversation_id, "read")
        member_list = check_read((await self.access.read([conversation_id])).get(conversation_id), user_id)
        start, id_ = member_list.visible_after(user_id), thread_id(conversation_id, thread_seq)
        await self._check_seen(id_, start)
        limit, newest = min(max(limit, 1), PAGE_MAX), await self.log.before(conversation_id, NEWEST, PAGE_DEFAULT)
        low, high = max(after_seq or 0, start), newest[0].seq_no + 1 if newest else 0
        high = high if before_seq is None else min(before_seq, high)
        is_forward = after_seq is not None
        found = await read_replies(
            self.records, id_, after=low, before=high, newest_first=not is_forward, limit=limit + 1
        )
        seqs = sorted((seq_no for seq_no, _ in found[:limit]), reverse=True)
        entries = await asyncio.gather(*(self.log.entry(conversation_id, seq_no) for seq_no in seqs))
        is_more = len(found) > limit
        has_older = low > max(start, thread_seq) if is_forward else is_more
        delivered_all, read_all = await self.receipts.lowest(member_list, but=user_id)
        shown = [seen_by(user_id, entry, self.clock.now_ms()) for entry in entries if entry is not None]
        beside = await self.summaries.beside_each(user_id, shown)
        return HistoryPage(
            entries=shown,
            next_before_seq=seqs[-1] if seqs and has_older else None,
            next_after_seq=seqs[0] if seqs and ((is_forward and is_more) or before_seq is not None) else None,
            first_unread_seq=await self._first_unread(user_id, id_),
            head=member_list.head.head,
            delivered_all_seq=delivered_all,
            read_all_seq=read_all,
            blocked=await self.blocks.blocked_by(user_id),
            beside={seq_no: one for (_, seq_no), one in beside.items()},
        )

    async def _check_seen(self, id_: str, start: int) -> None:
        """A member who sees nothing up to `start` sees the root or, of a root that is older, a reply."""
        conversation_id, thread_seq = parts_of(id_)
        if thread_seq <= start:
            is_seen = bool(await read_replies(self.records, id_, after=start, newest_first=True, limit=1))
        else:
            is_seen = await self.log.entry(conversation_id, thread_seq) is not None
            is_seen = is_seen or id_ in await read_threads(self.records, [id_])
        if not is_seen:
            raise NotFound("no such message")

    async def follow(self, user_id: str, conversation_id: str, thread_seq: int, *, is_on: bool) -> ReadState:
        return await self.follows.set(user_id, conversation_id, thread_seq, is_on=is_on)

    async def _first_unread(self, user_id: str, id_: str) -> int | None:
        mark = (await self.unread.marks(user_id, [id_])).get(id_)
        return await self.unread.first(user_id, id_, mark) if mark is not None else None


def check_read(member_list: MemberList | None, user_id: str) -> MemberList:
    """The list, if the user may read. Raises NotFound."""
    check(member_list, user_id, "read")
    assert member_list is not None
    return member_list


def _is_shown(user_id: str, thread: Thread | None, member_list: MemberList | None) -> bool:
    """Whether the user follows the thread in this membership."""
    member = member_list.members.get(user_id) if member_list is not None else None
    return thread is not None and member is not None and thread.is_followed_by(member)
