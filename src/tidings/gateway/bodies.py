"""REST bodies and answers as structs, and how the model's values become them.

The same answers travel over the WebSocket inside `ok`. MESSAGE has all its keys, always; unused ones are null.
/openapi.json is made from these structs, so what is documented is what is decoded and encoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidings.bounds import ID_CHARS_MAX, MEMBERS_MAX, NAME_CHARS_MAX, PROFILES_MAX, URL_CHARS_MAX
from tidings.gateway.protocol import Anchor, Cursor, Id, Limit, MessageId, Millis, Seq, Seqs
from tidings.model import (
    ConversationKind,
    Entry,
    EntryKind,
    Head,
    HistoryPage,
    HistoryRule,
    InboxItem,
    InboxPage,
    Member,
    MemberAction,
    ReadState,
    Role,
    Sent,
    Totals,
)

if TYPE_CHECKING:  # the client's SDK reads these structs too, and needs nothing of the server for it
    from tidings.gateway.usecases import Budget

Name = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
Url = Annotated[str, Meta(max_length=URL_CHARS_MAX, pattern=r"^https?://[^\s<>\"']+(?![\s\S])")]
UserIds = Annotated[list[Id], Meta(max_length=MEMBERS_MAX)]
ProfileIds = Annotated[
    str,
    Meta(
        max_length=PROFILES_MAX * (ID_CHARS_MAX + 1),
        description="User ids with commas between them; without any: all members.",
    ),
]


# --- what a request says ---


class InboxQuery(msgspec.Struct, frozen=True):
    limit: Limit = 20
    cursor: Cursor | None = None


class HistoryQuery(msgspec.Struct, frozen=True):
    before_seq: Seq | None = None
    after_seq: Seq | None = None
    around_seq: Seq | None = None
    anchor: Anchor | None = None
    limit: Limit = 20


class ProfilesQuery(msgspec.Struct, frozen=True):
    user_ids: ProfileIds | None = None


class FlagsBody(msgspec.Struct, frozen=True):
    muted: bool | None = None
    pinned: bool | None = None
    archived: bool | None = None


class NewConversation(msgspec.Struct, frozen=True):
    kind: ConversationKind
    members: UserIds = []
    name: Name | None = None
    avatar_url: Url | None = None
    history: HistoryRule | None = None


class ConversationPatch(msgspec.Struct, frozen=True):
    name: Name | UnsetType | None = UNSET
    avatar_url: Url | UnsetType | None = UNSET


class NewMembers(msgspec.Struct, frozen=True):
    user_ids: Annotated[list[Id], Meta(min_length=1, max_length=MEMBERS_MAX)]


class RolePatch(msgspec.Struct, frozen=True):
    role: Role


class NewMessage(msgspec.Struct, frozen=True):
    message_id: MessageId
    text: str
    ts: Millis | None = None


class MessagePatch(msgspec.Struct, frozen=True):
    text: str
    message_id: MessageId | None = None


class MessageDelete(msgspec.Struct, frozen=True):
    message_id: MessageId | None = None


class ReadMark(msgspec.Struct, frozen=True):
    up_to_seq: Seq | None = None
    up_to_ts: Millis | None = None
    seqs: Seqs | None = None


class UnreadMark(msgspec.Struct, frozen=True):
    from_seq: Seq


class ProfilePut(msgspec.Struct, frozen=True):
    name: Name | None = None
    avatar_url: Url | None = None


class TokenRequest(msgspec.Struct, frozen=True):
    user_id: Id


# --- what is answered ---


class MemberEntryBody(msgspec.Struct, frozen=True, gc=False):
    action: MemberAction
    user_ids: tuple[str, ...]
    role: Role | None


class MessageBody(msgspec.Struct, frozen=True, gc=False):
    """One numbered entry."""

    seq: int
    kind: EntryKind
    message_id: str | None
    sender_id: str | None
    text: str | None
    ts: int | None
    sent_at: int
    deleted: bool
    edited_at: int | None
    target_seq: int | None
    member: MemberEntryBody | None
    unavailable: Literal[True] | UnsetType = UNSET  # its text is archived and cannot be read now


class HistoryBody(msgspec.Struct, frozen=True):
    """Newest first; a null cursor means nothing more that way."""

    messages: list[MessageBody]
    next_before_seq: int | None
    next_after_seq: int | None
    first_unread_seq: int | None
    head: int
    delivered_all_seq: int
    read_all_seq: int


class InboxRowBody(msgspec.Struct, frozen=True):
    conversation_id: str
    kind: ConversationKind
    name: str | None
    avatar_url: str | None
    last_message_preview: str | None
    last_message_ts: int
    last_seq: int
    unread_count: int | None
    unread_capped: bool
    read_seq: int
    first_unread_seq: int | None
    muted: bool
    pinned: bool
    archived: bool


class InboxBody(msgspec.Struct, frozen=True):
    conversations: list[InboxRowBody]
    next_cursor: str | None
    total_unread: int
    unread_conversations: int
    stale: bool


class SentBody(msgspec.Struct, frozen=True, gc=False):
    conversation_id: str
    message_id: str | None
    seq: int
    sent_at: int
    duplicate: bool


class ReadStateBody(msgspec.Struct, frozen=True, gc=False):
    conversation_id: str
    read_seq: int
    unread_count: int | None
    unread_capped: bool
    first_unread_seq: int | None
    total_unread: int | None


class MemberBody(msgspec.Struct, frozen=True):
    user_id: str
    role: Role
    joined_seq: int
    joined_at: int


class ConversationBody(msgspec.Struct, frozen=True):
    conversation_id: str
    kind: ConversationKind
    name: str | None
    avatar_url: str | None
    history: HistoryRule
    head: int
    created_at: int
    members: list[MemberBody]


class ReceiptsBody(msgspec.Struct, frozen=True):
    """Each member but the sender once, at the furthest state."""

    read: list[str]
    delivered: list[str]
    pending: list[str]


class TotalsBody(msgspec.Struct, frozen=True):
    total_unread: int
    unread_conversations: int


class BudgetBody(msgspec.Struct, frozen=True):
    limit: int
    remaining: int
    reset_ms: int


class RateLimitsBody(msgspec.Struct, frozen=True):
    """By class name; a class that is off is absent."""

    rate_limits: dict[str, BudgetBody]


class ProfileBody(msgspec.Struct, frozen=True):
    user_id: str
    name: str | None
    avatar_url: str | None


class ProfilesBody(msgspec.Struct, frozen=True):
    """In the order asked. Whoever is not a member is left out."""

    profiles: list[ProfileBody]


class RevokedBody(msgspec.Struct, frozen=True):
    user_id: str
    tokens_valid_after: int


class TokenBody(msgspec.Struct, frozen=True):
    token: str


class HealthBody(msgspec.Struct, frozen=True):
    status: Literal["ok"]


class ErrorFacts(msgspec.Struct, frozen=True):
    code: str
    message: str
    temporary: bool
    retry_after_ms: int | None


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorFacts


# --- the model's values in wire form ---


def message_of(entry: Entry) -> MessageBody:
    ts = entry.timestamp
    if ts is None and entry.kind == "message":
        ts = entry.sent_ms
    change = entry.member
    return MessageBody(
        entry.seq_no,
        entry.kind,
        entry.message_id,
        entry.sender_id,
        entry.text,
        ts,
        entry.sent_ms,
        entry.is_deleted,
        entry.edited_ms,
        entry.target_seq,
        MemberEntryBody(change.action, change.user_ids, change.role) if change is not None else None,
        True if entry.is_unavailable else UNSET,
    )


def history_of(page: HistoryPage) -> HistoryBody:
    return HistoryBody(
        [message_of(entry) for entry in page.entries],
        page.next_before_seq,
        page.next_after_seq,
        page.first_unread_seq,
        page.head,
        page.delivered_all_seq,
        page.read_all_seq,
    )


def inbox_row_of(item: InboxItem) -> InboxRowBody:
    row, state = item.row, item.state
    return InboxRowBody(
        row.conversation_id,
        row.kind,
        row.name,
        row.avatar_url,
        row.last_message_preview,
        row.last_message_ts,
        row.last_seq,
        state.unread_count,
        state.unread_capped,
        state.read_seq,
        state.first_unread_seq,
        row.muted,
        row.pinned,
        row.archived,
    )


def inbox_of(page: InboxPage) -> InboxBody:
    rows = [inbox_row_of(item) for item in page.items]
    totals = page.totals
    return InboxBody(rows, page.next_cursor, totals.total_unread, totals.unread_conversations, page.is_stale)


def sent_of(sent: Sent) -> SentBody:
    entry = sent.entry
    return SentBody(entry.conversation_id, entry.message_id, entry.seq_no, entry.sent_ms, sent.is_duplicate)


def read_state_of(state: ReadState) -> ReadStateBody:
    return ReadStateBody(
        state.conversation_id,
        state.read_seq,
        state.unread_count,
        state.unread_capped,
        state.first_unread_seq,
        state.total_unread,
    )


def conversation_of(head: Head, members: tuple[Member, ...]) -> ConversationBody:
    return ConversationBody(
        head.conversation_id,
        head.kind,
        head.name,
        head.avatar_url,
        head.history,
        head.head,
        head.created_ms,
        [MemberBody(one.user_id, one.role, one.joined_seq, one.joined_ms) for one in members],
    )


def totals_of(totals: Totals) -> TotalsBody:
    return TotalsBody(totals.total_unread, totals.unread_conversations)


def rate_limits_of(budgets: Mapping[str, Budget]) -> RateLimitsBody:
    return RateLimitsBody({name: BudgetBody(one.limit, one.remaining, one.reset_ms) for name, one in budgets.items()})
