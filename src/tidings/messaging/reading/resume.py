"""Resume: a client that reconnects gets every entry after the last seq it names, or learns that there is more.

There is never a silent gap. The connection is attached and its lease announced before anything is read, and its live
events wait until the log was replayed. Then the live events that the replay contained are dropped and the rest follows.
So nothing is lost between history and live, and nothing comes twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from tidings.bounds import PAGE_MAX, RESUME_CONVERSATIONS_MAX, RESUME_ENTRIES_MAX
from tidings.errors import Close, NotFound
from tidings.messaging.access import Access, MemberList
from tidings.messaging.log import Log
from tidings.messaging.people.blocks import Blocks
from tidings.messaging.reading.inbox import Inbox
from tidings.messaging.reading.receipts import Receipts
from tidings.messaging.summaries import Summaries
from tidings.messaging.unread.unread import Unread
from tidings.model import Entry
from tidings.pushes import ConversationRemoved, ConversationUpdated, MessageNew, Resumed
from tidings.routing.hub import Connection
from tidings.stores.tables.ports import Conversations

_TOGETHER = 8  # conversations of one client read at the same time
_WRITTEN = 20  # entries between two checks whether the reader keeps up: 20 of the largest are a third of its queue
_GLANCE_S = 0.05  # a reader that takes them in this time is waited for with the permit held
_PATIENCE_S = 10.0  # a reader that does not take them in this time is slow
_CROWDED_S = 1.0  # the same where so many lag already that the permit is kept meanwhile


class Turn(Protocol):
    """A permit: one of few. It is given back while the caller only waits for a slow reader."""

    def give_back(self) -> bool: ...
    async def take_again(self) -> None: ...


class _Writing:
    """State that the conversations of one resume share. One of them is written at a time."""

    def __init__(self, turn: Turn | None) -> None:
        self.lock = asyncio.Lock()
        self.turn = turn


@dataclass(eq=False, repr=False)
class Resume:
    access: Access
    blocks: Blocks
    conversations: Conversations
    log: Log
    inbox: Inbox
    unread: Unread
    receipts: Receipts
    summaries: Summaries

    async def catch_up(
        self, connection: Connection, resume: dict[str, int], since: int | None, turn: Turn | None = None
    ) -> None:
        """Push what was missed. The caller holds live events back meanwhile."""
        named = list(resume.items())
        writing = _Writing(turn)
        for start in range(0, len(named), _TOGETHER):
            chunk = named[start : start + _TOGETHER]
            await _together([self._conversation(connection, writing, id_, seq_no) for id_, seq_no in chunk])
        if since is not None:
            await self.push_others(connection, resume, since)

    async def _conversation(self, connection: Connection, writing: _Writing, conversation_id: str, seq_no: int) -> None:
        try:
            await self._member(connection, writing, conversation_id, seq_no)
        except NotFound:
            connection.push_now(ConversationRemoved(conversation_id))

    async def _member(self, connection: Connection, writing: _Writing, conversation_id: str, seq_no: int) -> None:
        """Replay one conversation. Several are read at the same time; one at a time is written, as fast as the reader
        takes it.

        Raises NotFound if the user is no member, also if the user is removed meanwhile."""
        user_id = connection.user_id
        admitted = await self.access.authorize_beside(user_id, conversation_id, "read")
        member_list, has_summaries = admitted.member_list, admitted.has_summaries
        # The head is read before the entries. A later commit is routed later, to a connection that is known by now.
        head = await self._head(conversation_id)
        is_reset = seq_no > head and seq_no > await self.log.top(conversation_id)  # the head row may be behind
        after = max(0 if is_reset else seq_no, member_list.visible_after(user_id))
        first = await self.log.after(conversation_id, after, PAGE_MAX)
        member_list, first = await self.access.visible(member_list, user_id, first)
        after = max(after, member_list.visible_after(user_id))
        resumed = await self._standing(connection, member_list, after, is_reset)
        async with writing.lock:
            to_seq = await self._write(connection, member_list, after, first, writing.turn, has_summaries)
            # The connection reads from this event up to where the log was replayed: no live entry below it is written,
            # also where more is to come as history.
            connection.push_now(msgspec.structs.replace(resumed, to_seq=to_seq, complete=to_seq >= head))

    async def _write(
        self,
        connection: Connection,
        member_list: MemberList,
        after: int,
        page: list[Entry],
        turn: Turn | None,
        has_summaries: bool | None,
    ) -> int:
        """Write page by page up to RESUME_ENTRIES_MAX. Returns the seq that was reached."""
        conversation_id, to_seq = member_list.head.conversation_id, after
        blocked = await self.blocks.blocked_by(connection.user_id)
        while page:
            beside = await self.summaries.beside(connection.user_id, conversation_id, page, has_summaries)
            for start in range(0, len(page), _WRITTEN):
                for entry in page[start : start + _WRITTEN]:
                    is_hidden, mine = entry.sender_id in blocked, beside.get(entry.seq_no)
                    connection.push_now(MessageNew(entry, None, False, None, is_hidden=is_hidden, beside=mine))
                if not await _keeps_pace(connection, _GLANCE_S):
                    await self._wait(connection, turn)
            to_seq = page[-1].seq_no
            is_more = len(page) == PAGE_MAX and to_seq - after < RESUME_ENTRIES_MAX
            page = await self.log.after(conversation_id, to_seq, PAGE_MAX) if is_more else []
            member_list, page = await self.access.visible(member_list, connection.user_id, page)
        return to_seq

    async def _wait(self, connection: Connection, turn: Turn | None) -> None:
        """Wait for a reader that lags, but not for ever. Others have the permit meanwhile."""
        is_lent = turn is None or turn.give_back()
        if not await _keeps_pace(connection, _PATIENCE_S if is_lent else _CROWDED_S):
            connection.close(Close.SLOW)  # it comes back and goes on where it was
        if turn is not None and is_lent:
            await turn.take_again()

    async def _standing(self, connection: Connection, member_list: MemberList, after: int, is_reset: bool) -> Resumed:
        """Return how the conversation stands for the member, before anything of it is replayed."""
        conversation_id, user_id = member_list.head.conversation_id, connection.user_id
        state = await self.unread.state_soon(user_id, conversation_id)
        delivered_all, read_all = await self.receipts.standing(member_list, user_id, state.read_seq)
        return Resumed(
            conversation_id=conversation_id,
            from_seq=after + 1,
            to_seq=after,
            complete=False,
            reset=is_reset,
            read_seq=state.read_seq,
            unread_count=state.unread_count,
            delivered_all_seq=delivered_all,
            read_all_seq=read_all,
            mention_count=state.mention_count,
            first_mention_seq=state.first_mention_seq,
        )

    async def _head(self, conversation_id: str) -> int:
        heads = await self.conversations.heads([conversation_id])
        return heads[conversation_id].head if conversation_id in heads else 0

    async def push_others(self, connection: Connection, named: dict[str, int], since: int) -> None:
        """Push the rows of conversations that the client did not name, with a message or a join since then."""
        limit = RESUME_CONVERSATIONS_MAX
        changed = await self.inbox.changed(connection.user_id, since, limit + len(named))
        for conversation_id in [id_ for id_ in changed if id_ not in named][:limit]:
            try:
                item = await self.inbox.item(connection.user_id, conversation_id)
            except NotFound:
                continue
            connection.push_now(ConversationUpdated(item))


async def _together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all of them, and cancel the rest when one fails: a task left behind would write after the end."""
    tasks = [asyncio.create_task(work, name="resume") for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _keeps_pace(connection: Connection, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await connection.drained()
    except TimeoutError:
        return False
    return True
