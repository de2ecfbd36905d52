"""Edits and deletes: a message gets another text, or none. The old one is gone everywhere, earlier edits included.

Each is a numbered entry of its own that names its target, and goes the way of a message (send.py). Here it is decided
who may: its sender, and for a delete also those who lead the conversation.
"""

from __future__ import annotations

from tidings.clock import Clock
from tidings.errors import Forbidden, NotFound
from tidings.messaging.access import Access
from tidings.messaging.send import Sends
from tidings.model import Entry, EntryKind, Sent, digest_of
from tidings.stores.ports import Messages


class Rewrites:
    def __init__(self, access: Access, messages: Messages, sends: Sends, clock: Clock) -> None:
        self._access = access
        self._messages = messages
        self._sends = sends
        self._clock = clock

    async def edit(
        self, user_id: str, conversation_id: str, seq_no: int, text: str, message_id: str | None = None
    ) -> Sent:
        target = await self._target(user_id, conversation_id, seq_no)
        if target.sender_id != user_id:
            raise Forbidden("only its sender may edit a message")
        return await self._rewrite("edit", user_id, target, text, message_id)

    async def delete(self, user_id: str, conversation_id: str, seq_no: int, message_id: str | None = None) -> Sent:
        target = await self._target(user_id, conversation_id, seq_no)
        if target.sender_id != user_id:
            await self._access.authorize(user_id, conversation_id, "moderate")
        return await self._rewrite("delete", user_id, target, None, message_id)

    async def _target(self, user_id: str, conversation_id: str, seq_no: int) -> Entry:
        roster = await self._access.authorize(user_id, conversation_id, "write")
        found = await self._messages.page(
            conversation_id, after=seq_no - 1, before=seq_no + 1, limit=1, newest_first=False
        )
        is_visible = seq_no > roster.visible_after(user_id)
        if not found or not is_visible or found[0].kind != "message":
            raise NotFound("no such message")
        return found[0]

    async def _rewrite(
        self, kind: EntryKind, user_id: str, target: Entry, text: str | None, message_id: str | None
    ) -> Sent:
        if target.is_deleted and message_id is None:
            raise NotFound("no such message")  # with an id it may be a resend, which storing.py recognises
        return await self._sends.numbered(
            sender_id=user_id,
            conversation_id=target.conversation_id,
            message_id=message_id or self._clock.random_id(),
            kind=kind,
            text=text,
            target=target,
            digest=digest_of(f"{kind} {target.seq_no}\0{text or ''}"),  # the same id for another message: a conflict
        )
