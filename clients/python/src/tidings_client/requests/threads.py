"""Threads of one user: `account.threads`. A reply is a send with `thread_seq`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Literal

import msgspec

from tidings_client.bounds import PAGE_DEFAULT, PAGE_MAX
from tidings_client.forms import (
    INTEGER_MAX,
    Cursor,
    Limit,
    ReadMark,
    Seq,
    UnreadMark,
    check_one_mark,
    path_of,
    query_of,
)
from tidings_client.rest import Rest
from tidings_client.values import HistoryPage, Message, ReadState

ThreadFilter = Literal["unread", "all"]


class ThreadsQuery(msgspec.Struct, frozen=True):
    filter: ThreadFilter = "all"
    limit: Limit = PAGE_DEFAULT
    cursor: Cursor | None = None


class RepliesQuery(msgspec.Struct, frozen=True):
    thread_seq: Seq
    before_seq: Seq | None = None
    after_seq: Seq | None = None
    limit: Limit = PAGE_DEFAULT


class ThreadRow(msgspec.Struct, frozen=True):
    """A thread that the user follows."""

    conversation_id: str
    thread_seq: int
    root: Message | None  # None: the user may not see it
    replies: int
    last_seq: int
    last_sent_at: int
    unread_count: int
    first_unread_seq: int | None


class ThreadsPage(msgspec.Struct, frozen=True):
    """The latest reply first. All pages of the filter `unread` together have `unread_threads` rows."""

    threads: list[ThreadRow]
    next_cursor: str | None
    unread_threads: int


class Threads:
    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def page(
        self, *, filter: ThreadFilter = "all", limit: int = PAGE_DEFAULT, cursor: str | None = None
    ) -> ThreadsPage:
        """Read one page of the threads that the user follows, or of those with unread replies."""
        return await self._rest.get(path_of("threads"), ThreadsPage, **query_of(ThreadsQuery(filter, limit, cursor)))

    async def all(self, *, filter: ThreadFilter = "all") -> AsyncIterator[ThreadRow]:
        """Iterate over the threads that the user follows, the latest reply first."""
        cursor: str | None = None
        while True:
            page = await self.page(filter=filter, limit=PAGE_MAX, cursor=cursor)
            for one in page.threads:
                yield one
            if page.next_cursor is None:
                return
            cursor = page.next_cursor

    async def replies(
        self,
        conversation_id: str,
        thread_seq: int,
        *,
        before_seq: int | None = None,
        after_seq: int | None = None,
        limit: int = PAGE_DEFAULT,
    ) -> HistoryPage:
        """Read one page of the replies of a thread, newest first."""
        query = query_of(RepliesQuery(thread_seq, before_seq, after_seq, limit))
        return await self._rest.get(path_of("conversations", conversation_id, "messages"), HistoryPage, **query)

    async def follow(self, conversation_id: str, thread_seq: int) -> ReadState:
        """Follow a thread: its later replies are unread."""
        return await self._rest.send("PUT", _follow(conversation_id, thread_seq), ReadState, is_repeatable=True)

    async def unfollow(self, conversation_id: str, thread_seq: int) -> ReadState:
        return await self._rest.send("DELETE", _follow(conversation_id, thread_seq), ReadState, is_repeatable=True)

    async def mark_read(
        self,
        conversation_id: str,
        thread_seq: int,
        up_to_seq: int | None = None,
        *,
        seqs: Sequence[int] | None = None,
    ) -> ReadState:
        """Mark the replies of a thread as read: up to a seq, or only these. Without either, all of them."""
        if seqs is not None:
            check_one_mark(up_to_seq, seqs)
            mark = ReadMark(seqs=list(seqs), thread_seq=thread_seq)
        else:
            mark = ReadMark(up_to_seq=INTEGER_MAX if up_to_seq is None else up_to_seq, thread_seq=thread_seq)
        return await self._mark(conversation_id, "read", mark)

    async def mark_unread(self, conversation_id: str, thread_seq: int, from_seq: int) -> ReadState:
        return await self._mark(conversation_id, "unread", UnreadMark(from_seq, thread_seq))

    async def read_all(self, conversation_id: str) -> ReadState:
        """Mark all threads of a conversation as read. Returns the state of the conversation."""
        return await self._mark(conversation_id, "read", ReadMark(threads=True))

    async def _mark(self, conversation_id: str, name: str, mark: ReadMark | UnreadMark) -> ReadState:
        path = path_of("conversations", conversation_id, name)
        return await self._rest.send("POST", path, ReadState, mark, is_repeatable=True)


def _follow(conversation_id: str, thread_seq: int) -> str:
    return path_of("conversations", conversation_id, "threads", thread_seq, "follow")
