"""The nouns: frozen values that every part shares, and the table of kinds.

An `Entry` is one numbered place in a conversation's log. `KINDS` says what an entry of each kind does, and no other
module compares the names of kinds. `Content` is all that an author wrote: one value from the frame to the segment.
`Head` is the conversation itself, `Member` and `Status` are one user in it, `Row` is its row in that user's inbox.
Names follow the tables; on the wire seq_no, timestamp and sent_ms are called seq, ts and sent_at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from tidings.bounds import PREVIEW_CHARS_MAX

EntryKind = Literal["message", "edit", "delete", "member", "void", "reaction", "pin", "conversation"]
ConversationKind = Literal["direct", "group", "channel"]
Role = Literal["owner", "admin", "member"]
HistoryRule = Literal["joined", "all"]
Post = Literal["all", "admins"]
Visibility = Literal["private", "listed", "open"]
Scope = Literal["user", "role", "key"]
StreamState = Literal["streaming", "done", "interrupted"]
MemberAction = Literal["added", "removed", "left", "role", "accepted"]
Notify = Literal["all", "mentions", "none"]  # the messages that a user is notified of
Mention = Literal["all", "here"]
Provider = Literal["apns", "fcm", "webpush"]
Ranges = tuple[tuple[int, int], ...]


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of one kind of entry."""

    has_content: bool = False  # it says something beside a change of members
    counts: bool = False  # it is unread for every other member, who gets a notification
    bumps: bool = False  # it moves the conversation to the top of the inbox and is its preview
    is_target: bool = False  # others may rewrite it
    rewrites: bool = False  # it changes the content of its target
    uncounts: bool = False  # it takes its target out of the counts
    summarizes: bool = False  # it changes what is shown beside its target, never the target's content
    changes_members: bool = False
    is_void: bool = False  # it closes a number that nobody used


KINDS: dict[EntryKind, Kind] = {
    "message": Kind(has_content=True, counts=True, bumps=True, is_target=True),
    "edit": Kind(has_content=True, rewrites=True),
    "delete": Kind(rewrites=True, uncounts=True),
    "member": Kind(changes_members=True),
    "void": Kind(is_void=True),
    "reaction": Kind(has_content=True, summarizes=True),
    "pin": Kind(has_content=True, summarizes=True),
    "conversation": Kind(has_content=True),
}
COUNTED_KINDS = tuple(name for name, kind in KINDS.items() if kind.counts)  # for the queries of the tables


class File(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A file of a message. A draft knows only its id; the store stage reads the rest from the file's record."""

    file_id: str
    name: str = ""
    mime: str = ""
    bytes: int = 0
    width: int | None = None
    height: int | None = None
    blurhash: str | None = None


Reactions = tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]  # key, users who added it, users who took it away


class Content(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """All that the author of an entry wrote. Every part passes the whole value on, so a new field is one line here."""

    text: str | None = None
    data: dict[str, Any] | None = None  # the application's own, never interpreted
    silent: bool = False  # it counts for nobody, and moves nothing
    reply_to: int | None = None  # the seq_no of the message that it quotes
    files: tuple[File, ...] = ()
    ttl_s: int | None = None  # so long after it was sent the server deletes it
    mentions: tuple[str, ...] = ()  # users whom the author named
    mention: Mention | None = None  # and everybody, or everybody who is there
    reactions: Reactions | None = None  # of a reaction
    pinned: bool | None = None  # of a pin
    imported: bool = False  # it comes from another product, and counts for nobody
    conversation: dict[str, Any] | None = None  # of a change of the conversation: the fields that changed
    state: StreamState | None = None  # of a message that is, or was, written piece by piece
    only_sender: bool = False  # the before-send hook decided so: for everybody else the entry is a void
    thread_seq: int | None = None  # the root of the thread that it is a reply in
    also_here: bool = False  # of a reply: it counts in the conversation too

    @property
    def is_uncounted(self) -> bool:
        """It counts for nobody in its conversation. A reply may stay in its thread."""
        return self.silent or self.only_sender or (self.thread_seq is not None and not self.also_here)

    @property
    def said(self) -> Content:
        """The part that a resend must repeat exactly. Another value under the same message_id is a conflict."""
        files = tuple(File(file.file_id) for file in self.files)
        return Content(self.text, self.data, reply_to=self.reply_to, files=files, thread_seq=self.thread_seq)


class ContentPatch(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The fields that an edit replaces. A field that it leaves out stays as it is."""

    text: str | UnsetType = UNSET
    data: dict[str, Any] | UnsetType | None = UNSET
    mentions: tuple[str, ...] | UnsetType = UNSET
    mention: Mention | UnsetType | None = UNSET

    def apply(self, content: Content | None) -> Content:
        given = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        return msgspec.structs.replace(content if content is not None else Content(), **given)


EVERYBODY = "*"  # no user id: a mention of all members


def digest_of(content: Content | None, about: str = "") -> bytes:
    """The digest that tells a resend from a conflict. `about`: all else that the entry says, never the time."""
    one = content if content is not None else Content()
    if one.data is None and one.reply_to is None and one.thread_seq is None and not one.files:
        whole = f"{about}{one.text or ''}".encode()  # a text alone has the digest that it had before there was more
    else:
        whole = about.encode() + b"\0" + msgspec.json.encode(one.said, order="sorted")
    return hashlib.blake2b(whole, digest_size=12).digest()


def preview_of(content: Content | None) -> str | None:
    """The part of a message that an inbox row shows: its beginning, on one line."""
    if content is None or content.text is None:
        return None
    return content.text[:PREVIEW_CHARS_MAX].replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


class MemberChange(msgspec.Struct, frozen=True, gc=False):
    action: MemberAction
    user_ids: tuple[str, ...]
    role: Role | None = None


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One numbered place in a conversation's log.

    is_uncounted, thread_seq and mentions repeat a part of the content: they decide counts, and it may be archived.
    """

    conversation_id: str
    seq_no: int
    kind: EntryKind
    sent_ms: int
    message_id: str | None = None
    sender_id: str | None = None
    receiver_id: str | None = None
    content: Content | None = None  # None: its kind has none, it was deleted, or it is in a segment (s3_ref)
    timestamp: int | None = None
    digest: bytes | None = None
    member: MemberChange | None = None
    target_seq: int | None = None
    is_deleted: bool = False
    edited_ms: int | None = None
    edit_seq: int | None = None  # the newest edit entry of this message: it alone still holds the content
    rev: int = 0
    s3_ref: str | None = None
    is_uncounted: bool = False  # a message that counts for nobody in its conversation
    thread_seq: int | None = None  # the root of the thread that it, or the message that it rewrites, is a reply in
    mentions: tuple[str, ...] = ()  # the users whom it mentions; EVERYBODY alone: all members
    is_unavailable: bool = False  # never stored: its content is in a segment that is damaged or lost

    @property
    def text(self) -> str | None:
        return self.content.text if self.content is not None else None

    @property
    def expires_ms(self) -> int | None:
        """The time at which the server deletes it. An edit does not move this time."""
        ttl_s = self.content.ttl_s if self.content is not None and KINDS[self.kind].is_target else None
        return None if ttl_s is None else self.sent_ms + ttl_s * 1000

    @property
    def counts(self) -> bool:
        """It is unread for every member but its sender until they read it."""
        return KINDS[self.kind].counts and not self.is_deleted and not self.is_uncounted

    @property
    def counts_in_thread(self) -> bool:
        """It is unread in its thread, for everybody who follows it but its sender. Asked while its content is there."""
        content, is_reply = self.content, KINDS[self.kind].counts and self.thread_seq is not None
        return is_reply and not self.is_deleted and content is not None and not (content.silent or content.only_sender)

    def mentions_user(self, user_id: str) -> bool:
        return user_id in self.mentions or self.mentions == (EVERYBODY,)

    @property
    def bumps(self) -> bool:
        """It moves the conversation to the top of the inbox and is its preview."""
        return KINDS[self.kind].bumps and not self.is_uncounted

    @property
    def changes_counts(self) -> bool:
        kind = KINDS[self.kind]
        return kind.counts or kind.uncounts

    @property
    def changes_members(self) -> bool:
        return KINDS[self.kind].changes_members

    @property
    def is_void(self) -> bool:
        return KINDS[self.kind].is_void


def void_at(conversation_id: str, seq_no: int, sent_ms: int) -> Entry:
    """The entry that closes a number which nobody used."""
    return Entry(conversation_id, seq_no, "void", sent_ms)


class Head(msgspec.Struct, frozen=True, kw_only=True):  # a conversation, which exists when this row does
    conversation_id: str
    kind: ConversationKind
    created_ms: int
    name: str | None = None
    avatar_url: str | None = None
    history: HistoryRule = "all"
    head: int = 0  # the highest committed seq_no
    last_seq: int = 0  # the last entry that bumps the inbox
    last_ms: int = 0  # its sent_ms
    preview: str | None = None
    members_seq: int = 0  # the last member change: the version of the member list
    floor_seq: int = 0  # retention: nothing at or below it is shown or counted
    last_message: str | None = None  # more about it, stored as last_message.py of the tables has it
    large_ms: int = 0  # when it became large: nothing is written per member then. 0: it is not


class Rules(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rules of a conversation. A conversation without any has the defaults."""

    post: Post = "all"  # who may send and edit
    slow_s: int | None = None  # a member sends one message in so many seconds
    frozen: bool = False  # nobody sends or edits
    visibility: Visibility = "private"  # listed: found by everybody; open: everybody may join, too
    retention_s: int | None = None  # messages older than this are removed
    data: dict[str, Any] | None = None  # the application's own


NO_RULES = Rules()


class Member(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    conversation_id: str
    user_id: str
    role: Role = "member"
    joined_seq: int = 0
    joined_ms: int = 0
    left_seq: int | None = None  # 0: invited, and never a member so far
    is_requested: bool = False  # in a direct conversation that a stranger began, and that this member has not accepted


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation's row in one user's inbox. The keyspace has the count that is shown."""

    user_id: str
    conversation_id: str
    kind: ConversationKind
    name: str | None = None
    avatar_url: str | None = None
    last_message_preview: str | None = None
    last_message_ts: int = 0
    last_seq: int = 0
    unread_count: int | None = 0  # exact as of last_seq; None: not known
    muted: bool = False
    pinned: bool = False
    archived: bool = False
    joined_seq: int = 0  # of the membership, kept here so that a rebuild needs no member row
    joined_ms: int = 0
    is_hidden: bool = False  # a direct conversation, until it has a message above hidden_seq
    hidden_seq: int = 0
    is_requested: bool = False  # as the member is
    is_invited: bool = False  # the user is no member yet, and sees nothing but the name
    pinned_ms: int = 0  # when it was pinned
    archived_seq: int = 0  # last_seq when it was archived: a later message brings it back, unless it is muted
    muted_until: int | None = None  # None: for good
    notify: Notify = "all"
    last_message: str | None = None  # as in the head
    role: Role | None = None  # of the member; None: a row from before roles were kept here

    def is_muted(self, now_ms: int) -> bool:
        return self.muted and (self.muted_until is None or self.muted_until > now_ms)

    def is_archived(self, now_ms: int) -> bool:
        return self.archived and (self.is_muted(now_ms) or self.last_seq <= self.archived_seq)


class Status(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One member's state: receipts go forward only; the cursor and the ranges are the member's own unread state."""

    conversation_id: str
    user_id: str
    delivered_seq: int = 0
    read_seq: int = 0
    cursor_seq: int = 0
    ranges: Ranges = ()
    version: int = 0
    since_seq: int = 0  # the joined_seq of the membership it belongs to: an older one's cursor counts for nothing
    delivered_ms: int = 0  # when delivered_seq came to where it is. 0: not known
    read_ms: int = 0  # likewise of read_seq
    read_before: Ranges = ()  # earlier places of read_seq, each with its time, oldest first


class ReadState(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The unread state of a member in one conversation. Counts are None while they are being rebuilt."""

    conversation_id: str
    read_seq: int
    unread_count: int | None
    unread_capped: bool
    first_unread_seq: int | None
    total_unread: int | None
    mention_count: int = 0
    first_mention_seq: int | None = None
    total_mentions: int = 0
    thread_seq: int | None = None  # the counts are those of this thread; total_unread is of the conversations
    unread_threads: int = 0  # only with thread_seq


class Totals(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The badge: unread messages, conversations that have some, unread mentions, and threads with unread replies."""

    total_unread: int
    unread_conversations: int
    total_mentions: int = 0
    unread_threads: int = 0


class Sent(msgspec.Struct, frozen=True, gc=False):  # the answer to a send that is durable, numbered and counted
    entry: Entry
    is_duplicate: bool
    is_other: bool = False  # the stored text or data is not the one that was sent


class InboxItem(msgspec.Struct, frozen=True):
    row: Row
    state: ReadState
    draft: tuple[str, int] | None = None  # text and version; only in a page of the inbox
    rules: Rules = NO_RULES


class InboxPage(msgspec.Struct, frozen=True):
    items: list[InboxItem]
    next_cursor: str | None
    totals: Totals
    is_stale: bool = False


class ReactionCount(msgspec.Struct, frozen=True, gc=False):
    count: int
    mine: bool


class ThreadBeside(msgspec.Struct, frozen=True, gc=False):  # the thread of a root as one member sees it
    replies: int
    last_seq: int
    last_sent_at: int
    unread_count: int = 0
    following: bool = False


class Beside(msgspec.Struct, frozen=True, gc=False):
    """The summary of a message as one member sees it. It holds every reaction up to the entry at reactions_seq."""

    reactions: dict[str, ReactionCount]
    reactions_seq: int = 0
    is_pinned: bool = False
    thread: ThreadBeside | None = None


class HistoryPage(msgspec.Struct, frozen=True):  # entries newest first; a None cursor means nothing more that way
    entries: list[Entry]
    next_before_seq: int | None
    next_after_seq: int | None
    first_unread_seq: int | None
    head: int
    delivered_all_seq: int
    read_all_seq: int
    blocked: frozenset[str] = frozenset()  # senders whom the reader has blocked: their entries are hidden
    beside: Mapping[int, Beside] = {}  # seq_no -> what is shown beside it, where there is something


class User(msgspec.Struct, frozen=True, kw_only=True):
    user_id: str
    name: str | None = None
    avatar_url: str | None = None
    tokens_valid_after: int = 0  # ms: a token issued before is refused
