"""REST bodies and answers: one struct each. The same answers travel over the WebSocket inside `ok`.

MESSAGE always has all its keys; unused ones are null. /openapi.json is made from these structs: they are the form.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidings.bounds import MEMBERS_BULK_MAX, PAGE_MAX
from tidings.errors import Reason
from tidings.model import (
    ConversationKind,
    EntryKind,
    HistoryRule,
    MemberAction,
    Notify,
    Post,
    ReactionCount,
    Reactions,
    ReadState,
    Role,
    StreamState,
    ThreadBeside,
    Totals,
    Visibility,
)
from tidings.protocol.types import (
    Anchor,
    Data,
    Fields,
    FileIds,
    Limit,
    Mention,
    Mentions,
    MessageId,
    Millis,
    Name,
    RetentionS,
    Seq,
    Seqs,
    SlowS,
    Timestamp,
    TtlS,
    Url,
    UserId,
    UserIds,
    is_name,
)


class HistoryQuery(msgspec.Struct, frozen=True):
    before_seq: Seq | None = None
    after_seq: Seq | None = None
    around_seq: Seq | None = None
    anchor: Anchor | None = None
    limit: Limit = 20
    thread_seq: Seq | None = None
    fields: Fields | None = None


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request. An unknown field is refused by name, so that nothing that the caller meant is lost in
    silence."""


class FlagsBody(RequestBody, frozen=True):
    muted: bool | None = None
    pinned: bool | None = None
    archived: bool | None = None
    muted_until: Timestamp | UnsetType | None = UNSET
    notify: Notify | None = None


class NamedBody(RequestBody, frozen=True):
    """A body with an optional name."""

    def __post_init__(self) -> None:
        name = getattr(self, "name", None)
        if isinstance(name, str) and not is_name(name):
            raise ValueError("`name` must have a visible character, and no control or direction characters")


class NewConversation(NamedBody, frozen=True):
    kind: ConversationKind
    members: UserIds = []
    name: Name | None = None
    avatar_url: Url | None = None
    history: HistoryRule | None = None
    client_id: MessageId | None = None


class ConversationPatch(NamedBody, frozen=True):
    name: Name | UnsetType | None = UNSET
    avatar_url: Url | UnsetType | None = UNSET
    post: Post | UnsetType = UNSET
    slow_s: SlowS | UnsetType | None = UNSET  # null or 0: no slow mode
    frozen: bool | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    retention_s: RetentionS | UnsetType | None = UNSET  # null: messages stay
    data: Data | UnsetType | None = UNSET


class RolePatch(RequestBody, frozen=True):
    role: Role


class NewMembers(RequestBody, frozen=True):
    user_ids: Annotated[list[UserId], Meta(min_length=1, max_length=MEMBERS_BULK_MAX)]


class MembersQuery(msgspec.Struct, frozen=True):
    limit: Limit = PAGE_MAX
    cursor: str | None = None  # the last user_id of the page before


class ReceiptsQuery(msgspec.Struct, frozen=True):
    limit: Limit | None = None  # none: all members, or 100 of a large conversation
    cursor: str | None = None  # the last user_id of the page before


class Written(RequestBody, frozen=True):
    """The part of a new message that its author writes, whenever it is sent. Null is the same as absent."""

    text: str | None = ""
    data: Data | None = None
    silent: bool | None = False
    reply_to: Seq | None = None
    files: FileIds | None = ()
    ttl_s: TtlS | None = None
    mentions: Mentions | None = []
    mention: Mention | None = None
    thread_seq: Seq | None = None
    also_here: bool | None = False


class NewMessage(Written, frozen=True):
    message_id: MessageId | None = None  # without one an id is made, and a retry is not safe
    ts: Timestamp | None = None


class MessagePatch(RequestBody, frozen=True):
    text: str | UnsetType = UNSET
    data: Data | UnsetType | None = UNSET
    mentions: Mentions | UnsetType = UNSET
    mention: Mention | UnsetType | None = UNSET
    message_id: MessageId | None = None


class MessageDelete(RequestBody, frozen=True):
    message_id: MessageId | None = None


class MessageDeleteQuery(msgspec.Struct, frozen=True):
    message_id: MessageId | None = None


class ReadMark(RequestBody, frozen=True):
    up_to_seq: Seq | None = None
    up_to_ts: Millis | None = None
    seqs: Seqs | None = None
    thread_seq: Seq | None = None
    threads: bool = False  # all threads of the conversation that the caller follows


class UnreadMark(RequestBody, frozen=True):
    from_seq: Seq
    thread_seq: Seq | None = None


class MemberEntryBody(msgspec.Struct, frozen=True, gc=False):
    action: MemberAction
    user_ids: tuple[str, ...]
    role: Role | None


class FileBody(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A file of a message. A fact that nobody knows is left out."""

    file_id: str
    name: str
    mime: str
    bytes: int
    width: int | None = None
    height: int | None = None
    blurhash: str | None = None


class MessageBody(msgspec.Struct, frozen=True, gc=False):
    """One numbered entry. The fields after `member` are left out where they have nothing to say."""

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
    data: dict[str, Any] | UnsetType = UNSET
    silent: Literal[True] | UnsetType = UNSET
    reply_to: int | UnsetType = UNSET
    files: list[FileBody] | UnsetType = UNSET
    expires_at: int | UnsetType = UNSET  # the server deletes it then
    imported: Literal[True] | UnsetType = UNSET
    mentions: tuple[str, ...] | UnsetType = UNSET
    mention: Literal["all", "here"] | UnsetType = UNSET
    state: StreamState | UnsetType = UNSET  # of a message that is, or was, written piece by piece
    unavailable: Literal[True] | UnsetType = UNSET  # its text is archived and cannot be read now
    hidden: Literal[True] | UnsetType = UNSET  # the reader has blocked its sender
    sender_only: Literal[True] | UnsetType = UNSET  # to webhooks alone: nobody but its sender sees it
    # Of a message: key -> count. Of a reaction: key, the users who added it, the users who took it away.
    reactions: dict[str, ReactionCount] | Reactions | UnsetType = UNSET
    reactions_seq: int | UnsetType = UNSET  # `reactions` hold every entry of kind reaction up to this one
    pinned: bool | UnsetType = UNSET  # of a message: true; of a pin: whether it was set
    conversation: dict[str, Any] | UnsetType = UNSET  # of a change of the conversation: what it is now
    thread_seq: int | UnsetType = UNSET  # of a reply, and of its edit or delete: the root of the thread
    also_here: Literal[True] | UnsetType = UNSET  # of a reply that counts in the conversation too
    thread: ThreadBeside | UnsetType = UNSET  # of a root


class BesideBody(msgspec.Struct, frozen=True, gc=False):
    """The fields of MESSAGE that others change: reactions, the pin and the thread. Absent means none."""

    reactions: dict[str, ReactionCount] | UnsetType = UNSET
    reactions_seq: int | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    thread: ThreadBeside | UnsetType = UNSET


class HistoryBody(msgspec.Struct, frozen=True):
    """Newest first; a null cursor means nothing more that way."""

    messages: list[MessageBody]
    next_before_seq: int | None
    next_after_seq: int | None
    first_unread_seq: int | None
    head: int
    delivered_all_seq: int
    read_all_seq: int


class ReceiptTimes(msgspec.Struct, frozen=True, omit_defaults=True):
    """When the member's marks came to where they are: a message below the mark was received or read no later."""

    delivered_at: int | msgspec.UnsetType = msgspec.UNSET
    read_at: int | msgspec.UnsetType = msgspec.UNSET


class ReceiptsBody(msgspec.Struct, frozen=True):
    """Each member but the sender once, at the furthest state. `times` has those whose times are known.

    `next_cursor` is there where more members follow."""

    read: list[str]
    delivered: list[str]
    pending: list[str]
    times: dict[str, ReceiptTimes] | msgspec.UnsetType = msgspec.UNSET
    next_cursor: str | msgspec.UnsetType = msgspec.UNSET


class OwnDraftBody(msgspec.Struct, frozen=True, gc=False):
    """A text that the user has typed and not sent."""

    text: str
    version: int


class LastMessageBody(msgspec.Struct, frozen=True, gc=False):
    """The message that an inbox row shows."""

    seq: int
    sender_id: str | None
    kind: EntryKind
    text_preview: str | UnsetType = UNSET
    deleted: Literal[True] | UnsetType = UNSET
    files: int | UnsetType = UNSET


class RulesBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rules that differ from the defaults."""

    post: Post = "all"
    slow_s: int | None = None
    frozen: bool = False
    visibility: Visibility = "private"
    retention_s: int | None = None


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
    mention_count: int | UnsetType = UNSET
    first_mention_seq: int | UnsetType = UNSET
    muted_until: int | UnsetType = UNSET
    notify: Notify | UnsetType = UNSET
    requested: Literal[True] | UnsetType = UNSET  # a stranger began it; PUT .../accept, or answer
    invited: Literal[True] | UnsetType = UNSET  # no membership yet; PUT .../accept, or DELETE .../members/{me}
    draft: OwnDraftBody | UnsetType = UNSET  # in a page of the inbox
    last_message: LastMessageBody | UnsetType = UNSET
    role: Role | UnsetType = UNSET  # in a group or channel
    rules: RulesBody | UnsetType = UNSET
    data: dict[str, Any] | UnsetType = UNSET  # the application's own


class InboxBody(msgspec.Struct, frozen=True):
    conversations: list[InboxRowBody]
    next_cursor: str | None
    total_unread: int
    unread_conversations: int
    stale: bool
    total_mentions: int | UnsetType = UNSET
    unread_threads: int | UnsetType = UNSET


class SentBody(msgspec.Struct, frozen=True):
    conversation_id: str
    message_id: str | None
    seq: int
    sent_at: int
    duplicate: bool
    text: str | UnsetType | None = UNSET  # what is stored, where it is not what was sent
    data: dict[str, Any] | UnsetType = UNSET


class ReadStateBody(ReadState, frozen=True):
    pass


class MemberBody(msgspec.Struct, frozen=True):
    user_id: str
    role: Role
    joined_seq: int
    joined_at: int


class MembersBody(msgspec.Struct, frozen=True):
    members: list[MemberBody]
    next_cursor: str | None


class ConversationBody(msgspec.Struct, frozen=True):
    conversation_id: str
    kind: ConversationKind
    name: str | None
    avatar_url: str | None
    history: HistoryRule
    head: int
    created_at: int
    members: list[MemberBody]  # by user_id; of a long list the beginning
    role: Role | UnsetType = UNSET  # of the caller
    members_count: int | UnsetType = UNSET  # where there are more than in `members`
    rules: RulesBody | UnsetType = UNSET
    data: dict[str, Any] | UnsetType = UNSET


class TotalsBody(Totals, frozen=True):
    pass


class BudgetBody(msgspec.Struct, frozen=True):
    limit: int
    remaining: int
    reset_ms: int


class RateLimitsBody(msgspec.Struct, frozen=True):
    """By class name; a class that is off is absent."""

    rate_limits: dict[str, BudgetBody]


class ErrorFacts(msgspec.Struct, frozen=True):
    code: str
    message: str
    temporary: bool
    retry_after_ms: int | None
    reason: Reason | msgspec.UnsetType = msgspec.UNSET  # of `unauthorized`, to a server key and with --dev


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorFacts
