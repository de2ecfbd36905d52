"""Answers and events of the server as structs. decoding.py reads them.

The client ignores unknown fields and events, and an unknown word stays a string: the server may be newer. The structs
repeat those of the server; a test compares their fields.

Every numbered entry arrives as `MessageNew`, each once, in the order of its conversation; the sends of this client take
their place among them. `Resumed` says how a conversation stands after a reconnect: `reset` means that a program should
forget its copy of the conversation.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from tidings_client.beside.structs import ReactionCount, Reactions, ThreadSummary
from tidings_client.rules import Rules

# --- answers --------------------------------------------------------------------------------------


class MemberChange(msgspec.Struct, frozen=True, gc=False):
    """A change of the member list, as an entry of kind `member` carries it."""

    action: str  # added, removed, left, role, accepted
    user_ids: tuple[str, ...]
    role: str | None  # owner, admin, member


class File(msgspec.Struct, frozen=True, gc=False):
    """A file of a message. A fact that nobody knows is None."""

    file_id: str
    name: str
    mime: str
    bytes: int
    width: int | None = None
    height: int | None = None
    blurhash: str | None = None


class Message(msgspec.Struct, frozen=True, gc=False):
    """One numbered entry of a conversation. A program ignores kinds that it does not know."""

    seq: int
    kind: str  # message, edit, delete, member, void, reaction, pin, conversation
    message_id: str | None
    sender_id: str | None
    text: str | None
    ts: int | None
    sent_at: int
    deleted: bool
    edited_at: int | None
    target_seq: int | None
    member: MemberChange | None
    data: dict[str, Any] | None = None  # the application's own
    silent: bool = False  # it counts for nobody
    reply_to: int | None = None  # the seq of the message that it quotes
    files: list[File] = []
    expires_at: int | None = None  # the server deletes it then
    imported: bool = False
    mentions: tuple[str, ...] = ()  # the users whom its author named
    mention: str | None = None  # all, or here: those who were online
    state: str | None = None  # of a streamed message: streaming, done, interrupted
    unavailable: Literal[True] | UnsetType = UNSET  # the text is in the archive, and the archive does not answer now
    hidden: bool = False  # the user has blocked its sender
    reactions: dict[str, ReactionCount] | Reactions | None = None  # of a message: counts; of a reaction: changes
    reactions_seq: int | None = None  # `reactions` hold the changes up to this entry: apply only later ones
    pinned: bool | None = None  # of a message: it is pinned; of a pin: whether it was set
    conversation: dict[str, Any] | None = None  # of a change of the conversation: what it is now
    thread_seq: int | None = None  # of a reply: the root of its thread
    also_here: bool = False  # of a reply that counts in the conversation too
    thread: ThreadSummary | None = None  # of a root, in pages
    sender_only: bool = False  # to a webhook: nobody but its sender sees it


class HistoryPage(msgspec.Struct, frozen=True):
    """One page of a log, newest first. A cursor that is None means that nothing more lies in that direction."""

    messages: list[Message]
    next_before_seq: int | None
    next_after_seq: int | None
    first_unread_seq: int | None
    head: int
    delivered_all_seq: int
    read_all_seq: int


class OwnDraft(msgspec.Struct, frozen=True, gc=False):
    """A text that the user has typed in a conversation and not sent."""

    text: str
    version: int


class LastMessage(msgspec.Struct, frozen=True, gc=False):
    """The message that an inbox row shows."""

    seq: int
    sender_id: str | None
    kind: str
    text_preview: str | None = None  # None: it has no text, or was deleted
    deleted: bool = False
    files: int = 0


class InboxRow(msgspec.Struct, frozen=True):
    """One conversation as the inbox of a user shows it."""

    conversation_id: str
    kind: str  # direct, group, channel
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
    mention_count: int = 0
    first_mention_seq: int | None = None
    muted_until: int | None = None
    notify: str = "all"  # all, mentions, none
    requested: bool = False  # a stranger began it: accept, or answer
    invited: bool = False  # the user is no member yet: accept, or remove oneself
    draft: OwnDraft | None = None  # only a page of the inbox has it
    last_message: LastMessage | None = None
    role: str | None = None  # of the user, in a group or channel
    rules: Rules | None = None  # None: the defaults
    data: dict[str, Any] | None = None


class InboxPage(msgspec.Struct, frozen=True):
    conversations: list[InboxRow]
    next_cursor: str | None
    total_unread: int
    unread_conversations: int
    stale: bool
    total_mentions: int = 0
    unread_threads: int = 0


class Sent(msgspec.Struct, frozen=True):
    conversation_id: str
    message_id: str | None
    seq: int
    sent_at: int
    duplicate: bool
    text: str | None = None  # what is stored, where it is not what was sent
    data: dict[str, Any] | None = None


class ReadState(msgspec.Struct, frozen=True, gc=False):
    conversation_id: str
    read_seq: int
    unread_count: int | None
    unread_capped: bool
    first_unread_seq: int | None
    total_unread: int | None
    mention_count: int = 0
    first_mention_seq: int | None = None
    total_mentions: int = 0
    thread_seq: int | None = None  # the counts are those of this thread
    unread_threads: int = 0  # only with thread_seq


class Member(msgspec.Struct, frozen=True):
    user_id: str
    role: str  # owner, admin, member
    joined_seq: int
    joined_at: int


class Conversation(msgspec.Struct, frozen=True):
    conversation_id: str
    kind: str  # direct, group, channel
    name: str | None
    avatar_url: str | None
    history: str  # joined, all
    head: int
    created_at: int
    members: list[Member]
    role: str | None = None  # of the caller
    rules: Rules | None = None  # None: the defaults
    data: dict[str, Any] | None = None
    members_count: int | None = None  # where there are more than in `members`


class MembersPage(msgspec.Struct, frozen=True):
    members: list[Member]
    next_cursor: str | None  # None: that was the last page


class Totals(msgspec.Struct, frozen=True):
    total_unread: int
    unread_conversations: int
    total_mentions: int = 0
    unread_threads: int = 0


class Budget(msgspec.Struct, frozen=True):
    limit: int
    remaining: int
    reset_ms: int


class RateLimits(msgspec.Struct, frozen=True):
    """Budgets by class name. A class that is off is absent."""

    rate_limits: dict[str, Budget]


class Nothing(msgspec.Struct):
    """An answer whose fields the client does not need."""


# --- events ---------------------------------------------------------------------------------------


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    pass


class Hello(_Event, frozen=True, tag="hello"):
    """The first answer of a connection."""

    id: int | None
    protocol: int
    user_id: str
    connection_id: str
    server_time: int
    server_version: str
    store_epoch: str
    ping_interval_ms: int
    total_unread: int | None  # None while the server rebuilds the inbox; a ReadSynced follows
    unread_conversations: int | None
    total_mentions: int = 0
    unread_threads: int = 0


class MessageNew(_Event, frozen=True, tag="message.new"):
    conversation_id: str
    message: Message
    unread_count: int | None = None
    unread_capped: bool = False
    total_unread: int | None = None
    mention_count: int = 0
    total_mentions: int = 0
    thread_unread_count: int | None = None  # of a reply in a thread that the user follows
    unread_threads: int = 0  # only with thread_unread_count


class MessageAppended(_Event, frozen=True, tag="message.appended"):
    """The next piece of a message that is being written. `offset` counts characters; where pieces are missing, read
    the message with `message`."""

    conversation_id: str
    seq: int
    message_id: str
    offset: int
    text: str


class ReadSynced(_Event, frozen=True, kw_only=True, tag="read.synced"):
    """The counts of one conversation, or with `thread_seq` of one thread. Without a conversation: the totals that a
    hello left out."""

    conversation_id: str | None = None
    read_seq: int | None = None
    unread_count: int | None = None
    total_unread: int | None
    unread_capped: bool = False
    unread_conversations: int | None = None
    mention_count: int = 0
    first_mention_seq: int | None = None
    total_mentions: int = 0
    thread_seq: int | None = None
    unread_threads: int = 0


class Resumed(_Event, frozen=True, tag="resumed"):
    conversation_id: str
    from_seq: int
    to_seq: int
    complete: bool
    reset: bool
    read_seq: int
    unread_count: int | None
    delivered_all_seq: int
    read_all_seq: int
    mention_count: int = 0
    first_mention_seq: int | None = None


class Receipt(_Event, frozen=True, tag="receipt"):
    conversation_id: str
    user_id: str
    delivered_seq: int
    read_seq: int


class ReceiptSummary(_Event, frozen=True, tag="receipts"):
    """The receipts of a large conversation: how many others have my newest message `seq`, and the lowest marks."""

    conversation_id: str
    seq: int
    delivered_count: int
    read_count: int
    delivered_all_seq: int
    read_all_seq: int


class Typing(_Event, frozen=True, tag="typing"):
    conversation_id: str
    user_id: str
    typing: bool


class Presence(_Event, frozen=True, tag="presence"):
    user_id: str
    online: bool
    last_seen: int | None


class Blocked(_Event, frozen=True, tag="block"):
    """Another device of the user blocked a person, or ended the block."""

    user_id: str
    blocked: bool


class ScheduledFailed(_Event, frozen=True, tag="scheduled.failed"):
    message_id: str
    code: str  # of the refusal


class DraftChanged(_Event, frozen=True, tag="draft"):
    """A device of the user has changed a draft. An empty text: there is none any more."""

    conversation_id: str
    text: str
    version: int


class ConversationAdded(InboxRow, frozen=True, tag_field="type", tag="conversation.added"):
    pass


class ConversationUpdated(InboxRow, frozen=True, tag_field="type", tag="conversation.updated"):
    pass


class ConversationRemoved(_Event, frozen=True, tag="conversation.removed"):
    conversation_id: str


class DeviceRemoved(_Event, frozen=True, tag="device.removed"):
    """Another user registered the push token of this device: it is notified of nothing more."""

    device: str


class Draining(_Event, frozen=True, tag="draining"):
    """The node is about to close its connections; the client reconnects after `reconnect_in_ms`."""

    reconnect_in_ms: int


class Connected(msgspec.Struct, frozen=True):
    """The client connected. `is_new_store`: the tables were restored from an older copy; forget everything."""

    hello: Hello
    is_new_store: bool = False


class Interrupted(msgspec.Struct, frozen=True):
    """The connection is lost; the client tries again after `retry_in_s`. `code` is None when the network failed."""

    code: int | None
    retry_in_s: float


_LogEvent = MessageNew | MessageAppended | ReadSynced | Resumed | Receipt | ReceiptSummary
_PersonEvent = Typing | Presence | Blocked | ScheduledFailed | DraftChanged
ServerEvent = (
    _LogEvent | _PersonEvent | ConversationAdded | ConversationUpdated | ConversationRemoved | DeviceRemoved | Draining
)
Event = ServerEvent | Connected | Interrupted
