"""Coming back, after a second or a month: the client says the last seq it has per conversation and gets everything after
it, or is told plainly that there is more. Never a silent gap.

The seam: the connection is attached and its lease announced before anything is read, and its live events are held back
until the log was replayed; then those it has already are dropped and the rest follows. So nothing is lost between
history and live, and nothing comes twice.
"""

from __future__ import annotations

import asyncio

from tidings.bounds import PAGE_MAX, RESUME_CONVERSATIONS_MAX, RESUME_ENTRIES_MAX
from tidings.errors import NotFound
from tidings.messaging.access import Access, Roster
from tidings.messaging.inbox import Inbox
from tidings.messaging.receipts import Receipts
from tidings.messaging.slots import Slots
from tidings.messaging.unread import Unread
from tidings.model import ConversationRemoved, ConversationUpdated, Entry, MessageNew, Resumed
from tidings.routing.hub import Outbound
from tidings.stores.ports import Conversations

_TOGETHER = 8  # conversations of one client read at the same time


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

    async def catch_up(self, outbound: Outbound, resume: dict[str, int], since: int | None) -> None:
        """Push what was missed. The caller holds live events back meanwhile."""
        named = list(resume.items())[:RESUME_CONVERSATIONS_MAX]
        for start in range(0, len(named), _TOGETHER):
            chunk = named[start : start + _TOGETHER]
            await asyncio.gather(*(self._conversation(outbound, id_, seq_no) for id_, seq_no in chunk))
            await outbound.drained()
        if since is not None:
            await self._others(outbound, resume, since)

    async def _conversation(self, outbound: Outbound, conversation_id: str, seq_no: int) -> None:
        try:
            roster = await self._access.authorize(outbound.user_id, conversation_id, "read")
        except NotFound:
            outbound.push_now(ConversationRemoved(conversation_id))
            return
        head = await self._head(conversation_id)
        is_reset = seq_no > head
        after = max(0 if is_reset else seq_no, roster.visible_after(outbound.user_id))
        entries = await self._entries(conversation_id, after)
        to_seq = entries[-1].seq_no if entries else after
        is_complete = to_seq >= await self._head(conversation_id)
        tail = await self._tail(outbound, roster, after, to_seq, is_complete, is_reset)
        for entry in entries:
            outbound.push_now(MessageNew(entry, None, False, None))
        outbound.push_now(tail)
        if is_complete:
            outbound.resumed[conversation_id] = to_seq

    async def _tail(
        self, outbound: Outbound, roster: Roster, after: int, to_seq: int, is_complete: bool, is_reset: bool
    ) -> Resumed:
        conversation_id, user_id = roster.head.conversation_id, outbound.user_id
        state = await self._unread.state(user_id, conversation_id)
        delivered_all, read_all = await self._receipts.lowest(roster, but=user_id)
        return Resumed(
            conversation_id=conversation_id,
            from_seq=after + 1,
            to_seq=to_seq,
            complete=is_complete,
            reset=is_reset,
            read_seq=state.read_seq,
            unread_count=state.unread_count,
            delivered_all_seq=delivered_all,
            read_all_seq=read_all,
        )

    async def _head(self, conversation_id: str) -> int:
        heads = await self._conversations.heads([conversation_id])
        return heads[conversation_id].head if conversation_id in heads else 0

    async def _entries(self, conversation_id: str, after: int) -> list[Entry]:
        entries: list[Entry] = []
        while len(entries) < RESUME_ENTRIES_MAX:
            found = await self._slots.after(conversation_id, after + len(entries), PAGE_MAX)
            entries += found
            if len(found) < PAGE_MAX:
                break
        return entries

    async def _others(self, outbound: Outbound, named: dict[str, int], since: int) -> None:
        """Conversations the client did not name, with a message or a join since then."""
        for conversation_id in await self._inbox.changed(outbound.user_id, since):
            if conversation_id in named:
                continue
            try:
                item = await self._inbox.item(outbound.user_id, conversation_id)
            except NotFound:
                continue
            outbound.push_now(ConversationUpdated(item))
