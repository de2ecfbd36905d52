"""Ticks: how far each member's devices have received and read. Forward only; a client's receipt, never "routed".

message_status holds the marks. Reading moves both (unread.py puts them with the cursor); `message.delivered` moves the
delivered mark alone, coalesced: only the last value per member and conversation is written.
"""

from __future__ import annotations

import asyncio

from tidings.errors import NotFound, Problem, StoreError
from tidings.messaging.access import Access, Roster
from tidings.messaging.unread import Unread
from tidings.stores.ports import Conversations, Messages, Statuses

_WRITE_S = 0.2  # receipts of a burst become one write per member and conversation
_WAITING_MAX = 50_000  # receipts waiting to be written; a lost one is sent again with the next


class Receipts:
    def __init__(
        self, access: Access, messages: Messages, statuses: Statuses, conversations: Conversations, unread: Unread
    ) -> None:
        self._access = access
        self._messages = messages
        self._statuses = statuses
        self._conversations = conversations
        self._unread = unread
        self._waiting: dict[tuple[str, str], int] = {}
        self._writing: asyncio.Task[None] | None = None

    def delivered(self, user_id: str, acks: dict[str, int], origin: str) -> None:
        """A device has everything up to these. Never blocks; a foreign conversation is ignored in silence."""
        for conversation_id, seq_no in acks.items():
            key = (conversation_id, user_id)
            if key in self._waiting or len(self._waiting) < _WAITING_MAX:
                self._waiting[key] = max(seq_no, self._waiting.get(key, 0))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_later(), name="receipts")

    async def flush(self) -> None:
        """Write what waits, now."""
        waiting, self._waiting = self._waiting, {}
        marks = [mark for key, seq_no in waiting.items() if (mark := await self._allowed(*key, seq_no))]
        if marks:
            await self._statuses.deliver(marks)
        for conversation_id, user_id, seq_no in marks:
            await self._unread.delivered(user_id, conversation_id, seq_no)

    async def lowest(self, roster: Roster, *, but: str) -> tuple[int, int]:
        """(delivered, read): what all members other than `but` have."""
        others = [user_id for user_id in roster.members if user_id != but]
        if not others:
            return 0, 0
        marks = await self._marks(roster)
        return min(marks[user_id][0] for user_id in others), min(marks[user_id][1] for user_id in others)

    async def of_message(
        self, user_id: str, conversation_id: str, seq_no: int
    ) -> tuple[list[str], list[str], list[str]]:
        """(read, delivered, pending): each member but the sender once, at the furthest state."""
        roster = await self._access.authorize(user_id, conversation_id, "read")
        if seq_no <= roster.visible_after(user_id):
            raise NotFound("no such message")
        sender_id = await self._sender(conversation_id, seq_no)
        marks = await self._marks(roster)
        states: tuple[list[str], list[str], list[str]] = ([], [], [])
        for member_id in sorted(roster.members):
            if member_id != sender_id:
                delivered, read = marks[member_id]
                states[0 if read >= seq_no else 1 if delivered >= seq_no else 2].append(member_id)
        return states

    async def _marks(self, roster: Roster) -> dict[str, tuple[int, int]]:
        """user_id -> (delivered, read); who joined later begins at joined_seq."""
        statuses = await self._statuses.of_conversation(roster.head.conversation_id)
        marks = {member.user_id: (member.joined_seq, member.joined_seq) for member in roster.members.values()}
        for status in statuses:
            if status.user_id in marks:
                delivered, read = marks[status.user_id]
                marks[status.user_id] = (max(delivered, status.delivered_seq), max(read, status.read_seq))
        return marks

    async def _sender(self, conversation_id: str, seq_no: int) -> str | None:
        entries = await self._messages.page(
            conversation_id, after=seq_no - 1, before=seq_no + 1, limit=1, newest_first=False
        )
        if not entries:
            raise NotFound("no such message")
        return entries[0].sender_id

    async def _allowed(self, conversation_id: str, user_id: str, seq_no: int) -> tuple[str, str, int] | None:
        """Clamped to the head; None where the user is no member."""
        try:
            await self._access.authorize(user_id, conversation_id, "read")
            heads = await self._conversations.heads([conversation_id])
        except (Problem, StoreError):
            return None
        head = heads[conversation_id].head if conversation_id in heads else 0
        return (conversation_id, user_id, min(seq_no, head)) if min(seq_no, head) > 0 else None

    async def _write_later(self) -> None:
        while self._waiting:
            await asyncio.sleep(_WRITE_S)
            try:
                await self.flush()
            except StoreError:
                pass  # a receipt is sent again with the next message; a tick that is late is no lie
