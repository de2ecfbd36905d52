"""What a push says, decided at the moment it is sent: who may be told, of what, with which badge.

A job only names a user and an entry. By the time it is carried out the user may have left, read it, or muted the
conversation, and the sender may have deleted it; whatever is true then is said. No text of a message unless the
operator asked for previews. The badge is the inbox's own total. notify.py is the caller.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from tidings.bounds import NAME_CHARS_MAX
from tidings.messaging.access import Access, Roster
from tidings.messaging.rebuild import effective, is_in
from tidings.model import Entry, Head, Row, Totals
from tidings.model_push import Job
from tidings.stores.ports import Accounts, Conversations, Inboxes, Messages, Statuses, preview_of

BADGE_COLLAPSE_ID = "badge"  # of a notice without a conversation; conversation ids of our own making are longer


class Tables(Conversations, Inboxes, Statuses, Accounts, Protocol):
    """What is read to say something true."""


class Badges(Protocol):
    async def totals(self, user_id: str) -> Totals: ...


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a notice that is the same for all devices of a user."""

    badge: int
    title: str | None = None
    body: str | None = None
    is_silent: bool = False


class Notices:
    def __init__(
        self, access: Access, messages: Messages, tables: Tables, badges: Badges, *, has_preview: bool
    ) -> None:
        self._access = access
        self._messages = messages
        self._tables = tables
        self._badges = badges
        self._has_preview = has_preview

    async def content(self, job: Job) -> Content | None:
        """None: there is nothing to tell this user any more."""
        if not job.conversation_id:
            return Content(badge=await self._badge(job.user_id), is_silent=True)
        roster = await self._access.fresh(job.conversation_id)
        if roster is None or job.user_id not in roster.members:
            return None
        rows = await self._tables.rows(job.user_id, [job.conversation_id])
        row = rows.get(job.conversation_id)
        if row is None or await self._is_read(job, row):
            return None
        entry = await self._entry(roster, job)
        if entry is None:
            return None
        badge = await self._badge(job.user_id)
        if row.muted:
            return Content(badge=badge, is_silent=True)
        title, body = await self._words(entry)
        return Content(badge=badge, title=title, body=body)

    async def _badge(self, user_id: str) -> int:
        return (await self._badges.totals(user_id)).total_unread

    async def _is_read(self, job: Job, row: Row) -> bool:
        statuses = await self._tables.get(job.user_id, [job.conversation_id])
        status = effective(statuses.get(job.conversation_id), row)
        return status.cursor_seq >= job.seq_no or is_in(status.ranges, job.seq_no)

    async def _entry(self, roster: Roster, job: Job) -> Entry | None:
        """The message, if it is one that this user may be told of."""
        if job.seq_no <= roster.visible_after(job.user_id):
            return None
        found = await self._messages.page(
            job.conversation_id, after=job.seq_no - 1, before=job.seq_no + 1, limit=1, newest_first=False
        )
        if not found or found[0].kind != "message" or found[0].is_deleted or found[0].sender_id == job.user_id:
            return None
        return found[0]

    async def _words(self, entry: Entry) -> tuple[str, str]:
        heads = await self._tables.heads([entry.conversation_id])
        sender = await self._name(entry.sender_id or "")
        title = _title(heads.get(entry.conversation_id), sender)
        text = preview_of(entry.text) if self._has_preview else None
        if title == sender:
            return title, text or "New message"
        return title, f"{sender}: {text}" if text else f"New message from {sender}"

    async def _name(self, user_id: str) -> str:
        user = await self._tables.user(user_id)
        return ((user and user.name) or user_id)[:NAME_CHARS_MAX]


def _title(head: Head | None, sender: str) -> str:
    return sender if head is None or head.kind == "direct" or not head.name else head.name
