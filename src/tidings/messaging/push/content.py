"""The content of a notification, decided when it is sent: the recipient, the words and the badge.

A job names only a user and an entry. When a worker takes the job, the user may have left, read or muted the
conversation, and the sender may have deleted the message; the content says what is true then. It holds no text of a
message unless the operator turned previews on. The badge is the total that the user chose. A message that the user does
not want to hear of changes the badge alone. So does one that comes in quiet hours, and a summary follows it.
"""

from __future__ import annotations

import msgspec

from tidings.bounds import NAME_CHARS_MAX
from tidings.clock import Clock
from tidings.errors import NotFound
from tidings.messaging.access import Access, MemberList
from tidings.messaging.push.job import Job
from tidings.messaging.push.quiet import quiet_until
from tidings.messaging.threads.records import load_followed
from tidings.messaging.unread.ranges import effective, is_in
from tidings.messaging.unread.unread import Unread
from tidings.model import Entry, Head, Row, preview_of
from tidings.stores.tables.ports import Messages, Tables
from tidings.stores.tables.values import Preferences

SUMMARY_COLLAPSE_ID = "summary"  # of a summary, for the same reason
BADGE_COLLAPSE_ID = "badge"  # of a notice without a conversation; every id that Tidings makes is longer


class NoticeContent(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a notice that is the same for all devices of a user."""

    badge: int
    title: str | None = None
    body: str | None = None
    is_silent: bool = False
    summary_ms: int | None = None  # the quiet hours end then, and a summary must follow


class Notices:
    def __init__(
        self, access: Access, messages: Messages, tables: Tables, unread: Unread, clock: Clock, *, has_preview: bool
    ) -> None:
        self._access = access
        self._messages = messages
        self._tables = tables
        self._unread = unread
        self._clock = clock
        self._has_preview = has_preview

    async def content(self, job: Job) -> NoticeContent | None:
        """None: the user needs no notification any more."""
        if job.is_summary:
            return await self._summary(job.user_id)
        if not job.conversation_id:
            return NoticeContent(badge=(await self._badge(job.user_id))[0], is_silent=True)
        member_list = await self._access.fresh(job.conversation_id)
        if member_list is None or job.user_id not in member_list.members:
            return None
        rows = await self._tables.inboxes.rows(job.user_id, [job.conversation_id])
        row = rows.get(job.conversation_id)
        if row is None or await (self._is_read_in_thread(job) if job.thread_seq else self._is_read(job, row)):
            return None
        entry = await self._entry(member_list, job)
        if entry is None:
            return None
        badge, chosen = await self._badge(job.user_id)
        if row.is_muted(self._clock.now_ms()) or not _is_wanted(row, entry):
            return None if job.thread_seq else NoticeContent(badge=badge, is_silent=True)  # a thread is on no badge
        is_let = chosen.quiet_lets == "mentions" and entry.mentions_user(job.user_id)
        if (until_ms := quiet_until(chosen, self._clock.now_ms())) is not None and not is_let:
            return NoticeContent(badge=badge, is_silent=True, summary_ms=until_ms)
        title, body = await self._words(entry)
        return NoticeContent(badge=badge, title=title, body=body)

    async def _badge(self, user_id: str) -> tuple[int, Preferences]:
        totals, found = await self._unread.totals(user_id), await self._tables.people.preferences([user_id])
        chosen = found.get(user_id, Preferences())
        return totals.total_mentions if chosen.badge == "mentions" else totals.total_unread, chosen

    async def _summary(self, user_id: str) -> NoticeContent | None:
        """One notice for all that came in quiet hours. It says nothing where nothing is unread any more."""
        (badge, chosen), totals = await self._badge(user_id), await self._unread.totals(user_id)
        if (until_ms := quiet_until(chosen, self._clock.now_ms())) is not None:
            return NoticeContent(badge=badge, is_silent=True, summary_ms=until_ms)
        if totals.total_unread == 0:
            return _of_threads(badge, totals.unread_threads)
        title = "1 unread message" if totals.total_unread == 1 else f"{totals.total_unread} unread messages"
        many = f"in {totals.unread_conversations} conversations"
        return NoticeContent(badge=badge, title=title, body="in one conversation" if many.startswith("in 1 ") else many)

    async def _is_read(self, job: Job, row: Row) -> bool:
        statuses = await self._tables.statuses.get(job.user_id, [job.conversation_id])
        status = effective(statuses.get(job.conversation_id), row)
        return status.cursor_seq >= job.seq_no or is_in(status.ranges, job.seq_no)

    async def _is_read_in_thread(self, job: Job) -> bool:
        """Whether the user has read the reply, or does not follow the thread any more."""
        try:
            status = (await load_followed(self._tables, job.user_id, job.place)).status
        except NotFound:
            return True
        return status.cursor_seq >= job.seq_no or is_in(status.ranges, job.seq_no)

    async def _entry(self, member_list: MemberList, job: Job) -> Entry | None:
        """The message, if this user may see it and did not write it."""
        if job.seq_no <= member_list.visible_after(job.user_id):
            return None
        found = await self._messages.page(
            job.conversation_id, after=job.seq_no - 1, before=job.seq_no + 1, limit=1, newest_first=False
        )
        if not found or found[0].sender_id == job.user_id:
            return None
        entry = found[0]  # a reply that is in the conversation too is a message like any other
        is_meant = entry.counts_in_thread and not entry.counts if job.thread_seq else entry.counts
        return entry if is_meant else None

    async def _words(self, entry: Entry) -> tuple[str, str]:
        heads = await self._tables.conversations.heads([entry.conversation_id])
        sender = await self._name(entry.sender_id or "")
        title = _title(heads.get(entry.conversation_id), sender)
        text = preview_of(entry.content) if self._has_preview else None
        if title == sender:
            return title, text or "New message"
        return title, f"{sender}: {text}" if text else f"New message from {sender}"

    async def _name(self, user_id: str) -> str:
        user = await self._tables.accounts.user(user_id)
        return ((user and user.name) or user_id)[:NAME_CHARS_MAX]


def _of_threads(badge: int, unread_threads: int) -> NoticeContent | None:
    if unread_threads == 0:
        return None
    title = "1 unread thread" if unread_threads == 1 else f"{unread_threads} unread threads"
    return NoticeContent(badge=badge, title=title, body="New replies")


def _is_wanted(row: Row, entry: Entry) -> bool:
    """Whether the level of the conversation lets the message through."""
    return row.notify == "all" or (row.notify == "mentions" and entry.mentions_user(row.user_id))


def _title(head: Head | None, sender: str) -> str:
    return sender if head is None or head.kind == "direct" or not head.name else head.name
