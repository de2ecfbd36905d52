"""The nouns: frozen values that every part speaks of. Imports nothing of ours.

An `Entry` is one numbered slot of a conversation's log. `Head` is the conversation itself, `Member` and `Status` are
one user in it, `Row` is how it stands in that user's inbox. Names follow the tables; on the wire seq_no, timestamp,
sent_ms and content are called seq, ts, sent_at and text.
"""

from __future__ import annotations

import hashlib
import re
from typing import Literal

import msgspec

EntryKind = Literal["message", "edit", "delete", "member", "void"]
ConversationKind = Literal["direct", "group", "channel"]
Role = Literal["owner", "admin", "member"]
HistoryRule = Literal["joined", "all"]
Scope = Literal["user", "role", "key"]
MemberAction = Literal["added", "removed", "left", "role"]
Ranges = tuple[tuple[int, int], ...]

_ID = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.@-]{1,128}\Z")
_MESSAGE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def is_id(text: str) -> bool:
    """A user or conversation id: no braces, colons, spaces or control characters, so it is safe inside a key. Not `.`
    or `..`: in a path these mean this folder and the one above, so such a user could not be addressed over REST."""
    return _ID.match(text) is not None


def is_message_id(text: str) -> bool:
    return _MESSAGE_ID.match(text) is not None


def direct_id(one: str, other: str) -> str:
    """The conversation of two users: the same for both, without a lookup."""
    small, large = sorted((one, other))
    return "d-" + hashlib.sha256(f"{small}\0{large}".encode()).hexdigest()[:32]


def digest_of(text: str) -> bytes:
    """What is compared when a message_id comes again: the text, never the time."""
    return hashlib.blake2b(text.encode(), digest_size=12).digest()


class MemberChange(msgspec.Struct, frozen=True, gc=False):
    action: MemberAction
    user_ids: tuple[str, ...]
    role: Role | None = None


class Entry(msgspec.Struct, frozen=True, gc=False):
    conversation_id: str
    seq_no: int
    kind: EntryKind
    sent_ms: int
    message_id: str | None = None
    sender_id: str | None = None
    receiver_id: str | None = None
    text: str | None = None
    timestamp: int | None = None
    digest: bytes | None = None
    member: MemberChange | None = None
    target_seq: int | None = None
    is_deleted: bool = False
    edited_ms: int | None = None
    edit_seq: int | None = None  # the newest edit entry of this message: it alone still holds the text
    rev: int = 0
    s3_ref: str | None = None
    is_unavailable: bool = False  # never stored: its text is in a segment that is damaged or lost


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation. It exists when this row does."""

    conversation_id: str
    kind: ConversationKind
    created_ms: int
    name: str | None = None
    avatar_url: str | None = None
    history: HistoryRule = "all"
    head: int = 0  # the highest committed seq_no
    last_seq: int = 0  # the last entry of kind message
    last_ms: int = 0  # its sent_ms
    preview: str | None = None
    members_seq: int = 0  # the last member change: the version of the member list
    floor_seq: int = 0  # retention: nothing at or below it is shown or counted


class Member(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    conversation_id: str
    user_id: str
    role: Role = "member"
    joined_seq: int = 0
    joined_ms: int = 0
    left_seq: int | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """How a conversation stands in one user's inbox. `unread_count` is a snapshot; the keyspace has the count."""

    user_id: str
    conversation_id: str
    kind: ConversationKind
    name: str | None = None
    avatar_url: str | None = None
    last_message_preview: str | None = None
    last_message_ts: int = 0
    last_seq: int = 0
    unread_count: int = 0
    muted: bool = False
    pinned: bool = False
    archived: bool = False
    joined_seq: int = 0  # of the membership, kept here so that a rebuild needs no member row
    joined_ms: int = 0
    is_hidden: bool = False  # a direct conversation before its first message, for the one who did not create it


class Status(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What one member has: ticks go forward only; the cursor and the ranges are the member's own unread state."""

    conversation_id: str
    user_id: str
    delivered_seq: int = 0
    read_seq: int = 0
    cursor_seq: int = 0
    ranges: Ranges = ()
    version: int = 0
    since_seq: int = 0  # the joined_seq of the membership it belongs to: an older one's cursor counts for nothing


class ReadState(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a member has to read in one conversation. Counts are None while they are being rebuilt."""

    conversation_id: str
    read_seq: int
    unread_count: int | None
    unread_capped: bool = False
    first_unread_seq: int | None = None
    total_unread: int | None = None


class Totals(msgspec.Struct, frozen=True, gc=False):
    """The badge: unread messages, and conversations that have some."""

    total_unread: int
    unread_conversations: int


class Sent(msgspec.Struct, frozen=True, gc=False):
    """The answer to a send that is durable, numbered and counted."""

    entry: Entry
    is_duplicate: bool


class InboxItem(msgspec.Struct, frozen=True):
    row: Row
    state: ReadState


class InboxPage(msgspec.Struct, frozen=True):
    items: list[InboxItem]
    next_cursor: str | None
    totals: Totals
    is_stale: bool = False


class HistoryPage(msgspec.Struct, frozen=True):
    """Entries newest first; a None cursor means nothing more that way."""

    entries: list[Entry]
    next_before_seq: int | None
    next_after_seq: int | None
    first_unread_seq: int | None
    head: int
    delivered_all_seq: int
    read_all_seq: int


# --- events: what is pushed to a connected device; gateway/protocol.py gives them their wire form ---


class MessageNew(msgspec.Struct, frozen=True, gc=False, tag=True):
    entry: Entry
    unread_count: int | None
    unread_capped: bool
    total_unread: int | None


class ReadSynced(msgspec.Struct, frozen=True, gc=False, tag=True):
    state: ReadState


class Resumed(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag=True):
    """How a conversation named in `resume` stands. Not complete: go on with history after to_seq."""

    conversation_id: str
    from_seq: int
    to_seq: int
    complete: bool
    reset: bool
    read_seq: int
    unread_count: int | None
    delivered_all_seq: int
    read_all_seq: int


class Receipt(msgspec.Struct, frozen=True, gc=False, tag=True):
    conversation_id: str
    user_id: str
    delivered_seq: int
    read_seq: int


class Typing(msgspec.Struct, frozen=True, gc=False, tag=True):
    conversation_id: str
    user_id: str
    typing: bool


class Presence(msgspec.Struct, frozen=True, gc=False, tag=True):
    user_id: str
    online: bool
    last_seen: int | None


class ConversationAdded(msgspec.Struct, frozen=True, gc=False, tag=True):
    item: InboxItem


class ConversationUpdated(msgspec.Struct, frozen=True, gc=False, tag=True):
    item: InboxItem


class ConversationRemoved(msgspec.Struct, frozen=True, gc=False, tag=True):
    conversation_id: str


Event = (
    MessageNew
    | ReadSynced
    | Resumed
    | Receipt
    | Typing
    | Presence
    | ConversationAdded
    | ConversationUpdated
    | ConversationRemoved
)


class User(msgspec.Struct, frozen=True, kw_only=True):
    user_id: str
    name: str | None = None
    avatar_url: str | None = None
    tokens_valid_after: int = 0  # ms: a token issued before is refused


class Override(msgspec.Struct, frozen=True, kw_only=True):
    """An exception to a rate limit: `count` requests of a class in any `window_s` seconds, for one user or key, or for
    each of those who have the role."""

    scope: Scope
    name: str  # the user's id, the role, or the API key's name
    class_name: str
    count: int | None = None  # None: no limit at all; 0: nothing passes
    window_s: int = 60
    changed_ms: int = 0


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    key_hash: str
    name: str
    role: Literal["admin", "readonly"]
    created_ms: int
