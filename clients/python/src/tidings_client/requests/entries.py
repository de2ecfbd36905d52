"""Every entry of every conversation of a user, in order per conversation, from a cursor on: what a bot reads.

The cursor says how far each conversation was read. It is a text that a program keeps where it likes, and both clients
read it. After a restart nothing is skipped; an entry whose work was not finished comes again, so an answer has the id
`re-<seq>` and is stored once.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Protocol

import msgspec

from tidings_client.bounds import ENTRIES_ALL_S, ENTRIES_LOOK_S, PAGE_MAX
from tidings_client.clock import Clock
from tidings_client.errors import NotFound
from tidings_client.forms import InboxFilter
from tidings_client.values import Conversation, HistoryPage, InboxPage, InboxRow, MessageNew

START = "start"  # a cursor before the first entry of every conversation
Wait = Callable[[float], Awaitable[Collection[str]]]


class Reader(Protocol):
    """An Account."""

    async def inbox(self, *, limit: int, cursor: str | None, filter: InboxFilter | None) -> InboxPage: ...
    async def page(self, conversation_id: str, *, after_seq: int, limit: int) -> HistoryPage: ...
    async def conversation(self, conversation_id: str) -> Conversation: ...


class Entries:
    """`async for event in entries: …; save(entries.cursor)`. `wait` returns the conversations that have news."""

    def __init__(self, reader: Reader, user_id: Callable[[], str], after: str | None, wait: Wait, clock: Clock) -> None:
        self._reader = reader
        self._user_id = user_id
        self._wait = wait
        self._clock = clock
        self._is_from_start = after == START
        self._is_from_now = after is None
        self._read = _places(after) if after is not None and after != START else {}
        self._waiting: deque[MessageNew] = deque()
        self._behind: deque[str] = deque()
        self._all_s: float | None = None  # when every conversation is read on, whatever its row says

    @property
    def cursor(self) -> str:
        """Everything up to the last entry that was handed out."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self._read)).decode()

    def __aiter__(self) -> Entries:
        return self

    async def __anext__(self) -> MessageNew:
        while not self._waiting:
            if self._behind:
                await self._read_on(self._behind.popleft())
            elif self._all_s is None:
                await self._look(is_all=not self._is_from_now)
            else:
                await self._go_on()
        event = self._waiting.popleft()
        self._read[event.conversation_id] = event.message.seq
        return event

    async def begin(self) -> Entries:
        """Find out where the entries begin, before the first of them is asked for."""
        if self._all_s is None:
            await self._look(is_all=not self._is_from_now)
        return self

    async def _go_on(self) -> None:
        assert self._all_s is not None
        for conversation_id in await self._wait(ENTRIES_LOOK_S):
            if conversation_id not in self._read:
                await self._meet(conversation_id)
            self._behind.append(conversation_id)
        if not self._behind:
            await self._look(is_all=self._clock.monotonic_s() >= self._all_s)

    async def _look(self, *, is_all: bool) -> None:
        """Look at the rows of the inbox. Entries that move no row are found when all conversations are read on."""
        async for row in _rows(self._reader):
            if row.conversation_id not in self._read:
                await self._meet(row.conversation_id, row.last_seq)
            if is_all or row.last_seq > self._read[row.conversation_id]:
                self._behind.append(row.conversation_id)
        if is_all or self._all_s is None:
            self._all_s = self._clock.monotonic_s() + ENTRIES_ALL_S

    async def _meet(self, conversation_id: str, last_seq: int = 0) -> None:
        """A conversation that the cursor does not know begins at its end, or where the user joined it since."""
        if self._is_from_start:
            self._read[conversation_id] = 0
        elif self._is_from_now and self._all_s is None:
            self._read[conversation_id] = last_seq
        else:
            members = (await self._reader.conversation(conversation_id)).members
            joined = (one.joined_seq for one in members if one.user_id == self._user_id())
            self._read[conversation_id] = next(joined, 0)

    async def _read_on(self, conversation_id: str) -> None:
        try:
            page = await self._reader.page(conversation_id, after_seq=self._read[conversation_id], limit=PAGE_MAX)
        except NotFound:  # the user is no member any more
            self._read.pop(conversation_id, None)
            return
        self._waiting += (MessageNew(conversation_id, message) for message in reversed(page.messages))
        if page.next_after_seq is not None and page.messages:
            self._behind.appendleft(conversation_id)


async def _rows(reader: Reader) -> AsyncIterator[InboxRow]:
    """The inbox with its archived conversations. One that moves meanwhile may come twice."""
    filters: tuple[InboxFilter | None, ...] = (None, "archived")
    for filter_ in filters:
        cursor: str | None = None
        while True:
            page = await reader.inbox(limit=PAGE_MAX, cursor=cursor, filter=filter_)
            for row in page.conversations:
                yield row
            if (cursor := page.next_cursor) is None:
                break


def _places(cursor: str) -> dict[str, int]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=dict[str, int])
    except ValueError:
        raise ValueError("`after` is no cursor of entries") from None
