"""REST bodies of what users have for themselves: the inbox, counts, saved messages and drafts; and pins."""

from __future__ import annotations

import msgspec

from tidings.model import ConversationKind, Ranges
from tidings.protocol.bodies import ErrorFacts, MessageBody, RequestBody
from tidings.protocol.client_frames import Cursor, Id, InboxFilter, Limit, Seq


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


class ExplainQuery(msgspec.Struct, frozen=True):
    conversation_id: Id | None = None  # needed


class ExplanationBody(msgspec.Struct, frozen=True):
    """Each of `entries` above `from_seq` is counted under one reason (other … read), or is unread."""

    conversation_id: str
    head: int
    read_seq: int
    from_seq: int
    ranges: Ranges
    entries: int
    other: int
    deleted: int
    uncounted: int
    own: int
    requested: int
    blocked: int
    read: int
    unread: int
    unread_count: int | None
    unread_capped: bool
    muted: bool
    complete: bool


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
