"""Ticks: how far each member's devices have received and read. Forward only; a client's receipt, never "routed".

message_status holds the marks. Reading moves both (unread.py puts them with the cursor and tells `read`);
`message.delivered` moves the delivered mark alone. Both are coalesced: the last value per member and conversation is
written, then pushed as `receipt` to those whose messages it concerns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tidings.bounds import PAGE_MAX, RECEIPT_WRITE_S, RECEIPTS_WAITING_MAX
from tidings.errors import NotFound, Problem, StoreError
from tidings.messaging.access import Access, Roster
from tidings.messaging.ticks import Raise, Ticks
from tidings.messaging.unread import Unread
from tidings.model import Receipt
from tidings.routing.router import Router
from tidings.stores.ports import Conversations, Messages, Statuses

log = logging.getLogger("tidings.receipts")


class Receipts:
    def __init__(
        self,
        *,
        access: Access,
        messages: Messages,
        statuses: Statuses,
        conversations: Conversations,
        unread: Unread,
        ticks: Ticks,
        router: Router,
        on_delivered: Callable[[Sequence[Raise]], None] = lambda raises: None,
    ) -> None:
        self._access = access
        self._messages = messages
        self._statuses = statuses
        self._conversations = conversations
        self._unread = unread
        self._ticks = ticks
        self._router = router
        self._on_delivered = on_delivered
        self._waiting: dict[tuple[str, str], tuple[int, int]] = {}
        self._writing: asyncio.Task[None] | None = None

    def delivered(self, user_id: str, acks: dict[str, int], origin: str) -> None:
        """A device has everything up to these. Never blocks; a foreign conversation is ignored in silence."""
        for conversation_id, seq_no in acks.items():
            self._note(conversation_id, user_id, seq_no, 0)

    def read(self, user_id: str, conversation_id: str, seq_no: int) -> None:
        """The member has read up to here; the table says so already. Reading implies delivery."""
        self._note(conversation_id, user_id, seq_no, seq_no)

    async def flush(self) -> None:
        """Write and tell what waits, now."""
        waiting, self._waiting = self._waiting, {}
        raises = [one for key, marks in waiting.items() if (one := await self._allowed(*key, *marks))]
        if not raises:
            return
        await self._statuses.deliver([(id_, user_id, delivered) for id_, user_id, delivered, _ in raises])
        before = await self._ticks.raise_all(raises)
        for conversation_id, user_id, delivered, _ in raises:
            await self._unread.delivered(user_id, conversation_id, delivered)
        self._on_delivered(raises)
        await self._tell(raises, before)

    async def lowest(self, roster: Roster, *, but: str) -> tuple[int, int]:
        """(delivered, read): what all members other than `but` have."""
        return await self._ticks.lowest(roster, but=but)

    async def of_message(
        self, user_id: str, conversation_id: str, seq_no: int
    ) -> tuple[list[str], list[str], list[str]]:
        """(read, delivered, pending): each member but the sender once, at the furthest state."""
        roster = await self._access.authorize(user_id, conversation_id, "read")
        if seq_no <= roster.visible_after(user_id):
            raise NotFound("no such message")
        sender_id = await self._sender(conversation_id, seq_no)
        marks = await self._ticks.marks(roster)
        states: tuple[list[str], list[str], list[str]] = ([], [], [])
        for member_id in sorted(roster.members):
            if member_id != sender_id:
                delivered, read = marks[member_id]
                states[0 if read >= seq_no else 1 if delivered >= seq_no else 2].append(member_id)
        return states

    def _note(self, conversation_id: str, user_id: str, delivered: int, read: int) -> None:
        key = (conversation_id, user_id)
        if key not in self._waiting and len(self._waiting) >= RECEIPTS_WAITING_MAX:
            return  # a lost receipt is sent again with the next
        earlier = self._waiting.get(key, (0, 0))
        self._waiting[key] = (max(delivered, earlier[0]), max(read, earlier[1]))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_later(), name="receipts")

    async def _write_later(self) -> None:
        while self._waiting:
            await asyncio.sleep(RECEIPT_WRITE_S)
            try:
                await self.flush()
            except StoreError as error:
                log.info("receipts come with the next: %s", error)

    async def _allowed(self, conversation_id: str, user_id: str, delivered: int, read: int) -> Raise | None:
        """Clamped to the head; None where the user is no member."""
        try:
            await self._access.authorize(user_id, conversation_id, "read")
            heads = await self._conversations.heads([conversation_id])
        except (Problem, StoreError):
            return None
        head = heads[conversation_id].head if conversation_id in heads else 0
        marks = min(delivered, head), min(read, head)
        return (conversation_id, user_id, *marks) if marks[0] > 0 else None

    async def _tell(self, raises: Sequence[Raise], before: Sequence[tuple[int, int]]) -> None:
        """To the senders of what is newly delivered or read; one look at the log per conversation."""
        moved: dict[str, list[tuple[str, int, int, int]]] = {}
        for (conversation_id, user_id, delivered, read), (old_delivered, old_read) in zip(raises, before, strict=True):
            if delivered > old_delivered or read > old_read:
                lowest = min(old_delivered if delivered > old_delivered else delivered, old_read if read else delivered)
                marks = (user_id, max(delivered, old_delivered), max(read, old_read), lowest)
                moved.setdefault(conversation_id, []).append(marks)
        for conversation_id, members in moved.items():
            top = max(max(delivered, read) for _, delivered, read, _ in members)
            entries = await self._messages.page(
                conversation_id, after=0, before=top + 1, limit=PAGE_MAX, newest_first=True
            )
            for user_id, delivered, read, lowest in members:
                senders = {e.sender_id for e in entries if e.kind == "message" and e.seq_no > lowest}
                for sender_id in senders - {user_id, None}:
                    assert sender_id is not None
                    self._router.push(sender_id, Receipt(conversation_id, user_id, delivered, read))

    async def _sender(self, conversation_id: str, seq_no: int) -> str | None:
        entries = await self._messages.page(
            conversation_id, after=seq_no - 1, before=seq_no + 1, limit=1, newest_first=False
        )
        if not entries:
            raise NotFound("no such message")
        return entries[0].sender_id
