"""REST bodies of the things that users keep for themselves or put beside messages.

These are the inbox, saved and scheduled messages, drafts, pins, reactions and threads.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tidings.model import ConversationKind
from tidings.protocol.bodies import BesideBody, ErrorFacts, MessageBody, RequestBody, Written
from tidings.protocol.types import Cursor, Fields, Id, InboxFilter, Limit, Mention, Seq, Timestamp


class MoreQuery(msgspec.Struct, frozen=True):
    cursor: Cursor | None = None


class SavedBody(msgspec.Struct, frozen=True):
    conversation_id: str
    saved_at: int
    message: MessageBody


class SavedListBody(msgspec.Struct, frozen=True):
    """The latest saved first. A page may be short: messages that the user may not see any more are left out."""

    saved: list[SavedBody]
    next_cursor: str | None


class InboxQuery(msgspec.Struct, frozen=True):
    limit: Limit = 20
    cursor: Cursor | None = None
    filter: InboxFilter | None = None
    kind: ConversationKind | None = None
    fields: Fields | None = None


class ExplainQuery(msgspec.Struct, frozen=True):
    conversation_id: Id | None = None  # needed


class DraftPut(RequestBody, frozen=True):
    """`version`: the one that the device has seen; 0 where it has seen no draft."""

    text: str
    version: Seq


class DraftBody(msgspec.Struct, frozen=True):
    conversation_id: str
    text: str
    version: int


class NewerDraftBody(msgspec.Struct, frozen=True):
    """A refusal, with the draft that another device has written."""

    error: ErrorFacts
    draft: DraftBody


class PinBody(msgspec.Struct, frozen=True):
    pinned_by: str
    pinned_at: int
    message: MessageBody


class PinsBody(msgspec.Struct, frozen=True):
    """The latest pinned first."""

    pins: list[PinBody]


class ReactedBody(BesideBody, frozen=True, kw_only=True):
    """The state after a reaction was set or taken away."""

    conversation_id: str
    seq: int


class ReactorsBody(msgspec.Struct, frozen=True):
    key: str
    user_ids: list[str]


class ReactionsBody(msgspec.Struct, frozen=True):
    """By key and user id. A key may go on on the next page."""

    reactions: list[ReactorsBody]
    next_cursor: str | None


ThreadFilter = Literal["unread", "all"]


class ThreadsQuery(msgspec.Struct, frozen=True):
    filter: ThreadFilter = "all"
    limit: Limit = 20
    cursor: Cursor | None = None


class ThreadBody(msgspec.Struct, frozen=True):
    """A thread that the caller follows. A root that the caller may not see is null."""

    conversation_id: str
    thread_seq: int
    root: MessageBody | None
    replies: int
    last_seq: int
    last_sent_at: int
    unread_count: int
    first_unread_seq: int | None


class ThreadsBody(msgspec.Struct, frozen=True):
    """The latest reply first. The pages of `filter=unread` have exactly `unread_threads` rows."""

    threads: list[ThreadBody]
    next_cursor: str | None
    unread_threads: int


class NewScheduled(Written, frozen=True, kw_only=True):
    """A message that the server sends at `send_at`, with the message_id of the path."""

    conversation_id: Id
    send_at: Timestamp


class ScheduledBody(msgspec.Struct, frozen=True, omit_defaults=True):
    message_id: str
    conversation_id: str
    send_at: int
    text: str | None = None
    data: dict[str, Any] | None = None
    silent: bool = False
    reply_to: int | None = None
    files: tuple[str, ...] = ()
    ttl_s: int | None = None
    mentions: tuple[str, ...] = ()
    mention: Mention | None = None
    thread_seq: int | None = None
    also_here: bool = False
    failed: str | None = None  # the code of the refusal: it is not tried again


class ScheduledListBody(msgspec.Struct, frozen=True):
    """The soonest first."""

    scheduled: list[ScheduledBody]
