"""Coming back, after a second or a month: the client says the last seq it has per conversation and gets what came after
it, or is told plainly that there is more. Never a silent gap.

The seam: the connection is attached and its lease announced before anything is read, and its live events are held back
until the log was replayed; then those it has already are dropped and the rest follows. So nothing is lost between
history and live, and nothing comes twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

import msgspec

from tidings.bounds import PAGE_MAX, RESUME_CONVERSATIONS_MAX, RESUME_ENTRIES_MAX
from tidings.errors import Close, NotFound
from tidings.messaging.access import Access, Roster
from tidings.messaging.inbox import Inbox
from tidings.messaging.receipts import Receipts
from tidings.messaging.slots import Slots
from tidings.messaging.unread import Unread
from tidings.model import ConversationRemoved, ConversationUpdated, Entry, MessageNew, Resumed
from tidings.routing.hub import Outbound
from tidings.stores.ports import Conversations

_TOGETHER = 8  # conversations of one client read at the same time
_WRITTEN = 20  # entries between two looks whether the reader keeps up: 20 of the largest are a third of its queue
_GLANCE_S = 0.05  # a reader that takes them in this time is waited for in one's turn
_PATIENCE_S = 10.0  # one that does not in this time is slow
_CROWDED_S = 1.0  # the same where so many lag already that it is waited for in one's turn


class Turn(Protocol):
    """One of few: for whoever reads and writes, not for whoever waits for a reader."""

    def give_back(self) -> bool: ...
    async def take_again(self) -> None: ...


class _Writing:
    """What the conversations of one resume share: one of them is written at a time."""

    def __init__(self, turn: Turn | None) -> None:
        self.lock = asyncio.Lock()
        self.turn = turn


class Resume:
    def __init__(
        self,
        access: Access,
        conversations: Conversations,
        slots: Slots,
        inbox: Inbox,
        unread: Unread,
        receipts: Receipts,
    ) -> None:
        self._access = access
        self._conversations = conversations
        self._slots = slots
        self._inbox = inbox
        self._unread = unread
        self._receipts = receipts

    async def catch_up(
        self, outbound: Outbound, resume: dict[str, int], since: int | None, turn: Turn | None = None
    ) -> None:
        """Push what was missed. The caller holds live events back meanwhile."""
        named = list(resume.items())
        writing = _Writing(turn)
        for start in range(0, len(named), _TOGETHER):
            chunk = named[start : start + _TOGETHER]
            await _together([self._conversation(outbound, writing, id_, seq_no) for id_, seq_no in chunk])
        if since is not None:
            await self._others(outbound, resume, since)

    async def _conversation(self, outbound: Outbound, writing: _Writing, conversation_id: str, seq_no: int) -> None:
        try:
            await self._member(outbound, writing, conversation_id, seq_no)
        except NotFound:
            outbound.push_now(ConversationRemoved(conversation_id))

    async def _member(self, outbound: Outbound, writing: _Writing, conversation_id: str, seq_no: int) -> None:
        """Several are read at the same time; one at a time is written, as fast as the reader takes it.

        Raises NotFound to whoever is no member, also when that happens meanwhile."""
        user_id = outbound.user_id
        roster = await self._access.authorize(user_id, conversation_id, "read")
        # Read once, before the entries. What is committed later is routed later, to a connection that is known by now.
        head = await self._head(conversation_id)
        is_reset = seq_no > head and seq_no > await self._slots.top(conversation_id)  # the head row may be behind
        after = max(0 if is_reset else seq_no, roster.visible_after(user_id))
        first = await self._slots.after(conversation_id, after, PAGE_MAX)
        roster, first = await self._access.visible(roster, user_id, first)
        after = max(after, roster.visible_after(user_id))
        resumed = await self._standing(outbound, roster, after, is_reset)
        async with writing.lock:
            to_seq = await self._write(outbound, roster, after, first, writing.turn)
            # Before anything live: also where more is to come as history, what was replayed is not pushed again.
            outbound.resumed[conversation_id] = to_seq
            outbound.push_now(msgspec.structs.replace(resumed, to_seq=to_seq, complete=to_seq >= head))

    async def _write(self, outbound: Outbound, roster: Roster, after: int, page: list[Entry], turn: Turn | None) -> int:
        """Page by page up to RESUME_ENTRIES_MAX; the seq that was reached."""
        conversation_id, to_seq = roster.head.conversation_id, after
        while page:
            for start in range(0, len(page), _WRITTEN):
                for entry in page[start : start + _WRITTEN]:
                    outbound.push_now(MessageNew(entry, None, False, None))
                if not await _keeps_pace(outbound, _GLANCE_S):
                    await self._wait(outbound, turn)
            to_seq = page[-1].seq_no
            is_more = len(page) == PAGE_MAX and to_seq - after < RESUME_ENTRIES_MAX
            page = await self._slots.after(conversation_id, to_seq, PAGE_MAX) if is_more else []
            roster, page = await self._access.visible(roster, outbound.user_id, page)
        return to_seq

    async def _wait(self, outbound: Outbound, turn: Turn | None) -> None:
        """For a reader that lags, but not for ever, and meanwhile others have the turn."""
        is_lent = turn is None or turn.give_back()
        if not await _keeps_pace(outbound, _PATIENCE_S if is_lent else _CROWDED_S):
            outbound.close(Close.SLOW)  # it comes back and goes on where it was
        if turn is not None and is_lent:
            await turn.take_again()

    async def _standing(self, outbound: Outbound, roster: Roster, after: int, is_reset: bool) -> Resumed:
        """How the conversation stands for the member, before anything of it is replayed."""
        conversation_id, user_id = roster.head.conversation_id, outbound.user_id
        state = await self._unread.state(user_id, conversation_id)
        delivered_all, read_all = await self._receipts.standing(roster, user_id, state.read_seq)
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
        )

    async def _head(self, conversation_id: str) -> int:
        heads = await self._conversations.heads([conversation_id])
        return heads[conversation_id].head if conversation_id in heads else 0

    async def _others(self, outbound: Outbound, named: dict[str, int], since: int) -> None:
        """Conversations the client did not name, with a message or a join since then."""
        limit = RESUME_CONVERSATIONS_MAX
        changed = await self._inbox.changed(outbound.user_id, since, limit + len(named))
        for conversation_id in [id_ for id_ in changed if id_ not in named][:limit]:
            try:
                item = await self._inbox.item(outbound.user_id, conversation_id)
            except NotFound:
                continue
            outbound.push_now(ConversationUpdated(item))


async def _together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All of them, or none goes on: whoever is left behind by a failure would write to a turn that is over."""
    tasks = [asyncio.create_task(work, name="resume") for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _keeps_pace(outbound: Outbound, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await outbound.drained()
    except TimeoutError:
        return False
    return True
