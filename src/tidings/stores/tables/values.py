"""Values that the table ports take and answer. The protocols themselves are in ports.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from tidings.errors import StoreError
from tidings.model import Content, Entry, Member, Provider, Role, Row, Scope, Status
from tidings.stores.tables.records import Put

# --- the log --------------------------------------------------------------------------------------


class Rewrite(msgspec.Struct, frozen=True, kw_only=True):
    """The change that an edit or delete makes to its target, in the commit of its own entry."""

    target_seq: int
    expected_rev: int  # the target's rev as seen; another rev means: read again
    content: Content | None
    is_deleted: bool
    edited_ms: int | None
    edit_seq: int | None
    wipe_seq: int | None  # the earlier edit entry, whose content goes too
    sender_id: str | None = None  # of the target


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of one conversation that commit together or not at all, with everything that follows from them.

    `entries` ascend by seq_no. Entries of kind void close numbers that were given up: a void is left out where its
    number has an entry already. No other entry is ever left out.
    """

    conversation_id: str
    entries: tuple[Entry, ...]
    rewrites: tuple[Rewrite, ...] = ()
    members: tuple[Member, ...] = ()  # put as they are; left_seq set = left. Raises members_seq to the entry's seq_no
    rows_added: tuple[Row, ...] = ()
    large_ms: int | None = None  # of the head from now on, beside a change of members; None: as it is
    rows_removed: tuple[str, ...] = ()  # user ids
    rows_accepted: tuple[str, ...] = ()  # user ids: their rows are requests no more
    puts: tuple[Put, ...] = ()  # records that are committed with the entries, each record once

    @property
    def roles(self) -> list[tuple[str, Role]]:
        """(user_id, role) of members who get another role: their inbox rows show it from this commit on."""
        changes = [entry.member for entry in self.entries if entry.member is not None and entry.member.action == "role"]
        named = {user_id for change in changes for user_id in change.user_ids}
        return [(member.user_id, member.role) for member in self.members if member.user_id in named]

    @property
    def names(self) -> dict[str, str | None]:
        """The name and the picture, as far as the entries change them: the head has them from this commit on."""
        changes = [one.content.conversation for one in self.entries if one.content and one.content.conversation]
        return {
            field: value for change in changes for field, value in change.items() if field in ("name", "avatar_url")
        }

    @property
    def is_plain(self) -> bool:
        """It changes nothing but the log and its head."""
        return not (
            self.rewrites or self.members or self.rows_added or self.rows_removed or self.rows_accepted or self.puts
        )


class Known(msgspec.Struct, frozen=True, gc=False):
    """The place where a message_id of this sender is stored."""

    seq_no: int
    is_written: bool = False  # this very append wrote it, in a part of the group before the part that was refused


class Stored(msgspec.Struct, frozen=True):
    """A group was stored, except for these voids. Every other entry of the group was written by this append."""

    left_out: frozenset[int]  # positions in `entries` of voids whose number has an entry already


class Refused(msgspec.Struct, frozen=True):
    """The reasons why a group was not stored. Entries are named by their position in `entries`.

    Nothing of the group was written, unless it was too large for one transaction: then the parts that were written
    are `known`, each entry at its own number.
    `known`: position -> the row that has this (sender_id, message_id) already. Read this first.
    `taken`: positions of entries (voids aside) whose number holds another entry, or an earlier entry of the group. An
    entry that is wholly at its own number already (same sender_id and message_id) is `known`, never `taken`.
    `is_stale`: the target of a rewrite has another rev, or a record has another version than its put expects.
    """

    known: dict[int, Known]
    taken: frozenset[int]
    is_stale: bool = False
    is_gone: bool = False  # the conversation does not exist (any more)


Verdict = Stored | Refused | None  # None: every entry of the group was written
Answer = Verdict | StoreError  # a StoreError: this group has no verdict, whatever the others have


class Places(NamedTuple):
    """The outcome of each entry of a group, by its position."""

    free: list[int]
    left_out: frozenset[int]
    taken: frozenset[int]


def places_of(entries: Sequence[Entry], filled: Iterable[int], known: Mapping[int, Known]) -> Places:
    """Sort entries by their numbers. `filled` are the numbers that have an entry; a number goes to one entry only."""
    held = set(filled)
    free: list[int] = []
    left_out: set[int] = set()
    taken: set[int] = set()
    for at, entry in enumerate(entries):
        if entry.seq_no not in held:
            held.add(entry.seq_no)
            free.append(at)
        elif entry.is_void:
            left_out.add(at)
        elif at not in known or known[at].seq_no != entry.seq_no:
            taken.add(at)
    return Places(free, frozenset(left_out), frozenset(taken))


class Top(msgspec.Struct, frozen=True, gc=False):
    """The state of the numbering, read from the log itself."""

    seq_no: int
    sent_ms: int  # the highest time of the last GROUP_ENTRIES_MAX entries: that of the last one may lie below it
    members_seq: int


# --- inbox rows -----------------------------------------------------------------------------------


# The fields of a row that are its user's own: nothing else changes them.
FLAGS = ("muted", "pinned", "archived", "pinned_ms", "archived_seq", "muted_until", "notify")


class Touch(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A later state of a conversation row: applied if the row exists and last_seq is not below the row's.

    At the same last_seq a text does not replace the empty preview of a deleted message: the touch is late.
    It does replace the empty preview of a row that leaves the text to the head (AT_HEAD).
    """

    user_id: str
    conversation_id: str
    last_seq: int
    last_ms: int
    preview: str | None
    unread_count: int | None = None  # None: not known as of last_seq
    last_message: str | None = None  # as in the head
    version: int = 0  # of the member's status that the count belongs to: a later status makes the count unknown


# --- statuses -------------------------------------------------------------------------------------


def with_marks_of(before: Status, status: Status) -> Status:
    """Return `status` with the higher marks of both, each with its time. Of equal marks the earlier time stays."""
    marks: dict[str, Any] = {}
    if before.delivered_seq >= status.delivered_seq:
        marks |= {"delivered_seq": before.delivered_seq, "delivered_ms": before.delivered_ms}
    if before.read_seq >= status.read_seq:
        marks |= {"read_seq": before.read_seq, "read_ms": before.read_ms, "read_before": before.read_before}
    return msgspec.structs.replace(status, **marks)


# --- devices ---


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A registered device. For Web Push the token is the subscription's endpoint, and the two keys are its own."""

    user_id: str
    device_id: str
    provider: Provider
    token: str
    p256dh: str | None = None
    auth: str | None = None
    registered_ms: int = 0
    last_seen_ms: int = 0


# --- people ---------------------------------------------------------------------------------------

Badge = Literal["loud", "all", "mentions"]  # unread but for muted ones, all unread, or mentions alone
WhoMay = Literal["anybody", "shared", "nobody"]  # shared: people with whom the user shares a group or channel


QuietLets = Literal["mentions", "nothing"]  # the messages that make a sound in quiet hours


class Block(msgspec.Struct, frozen=True, gc=False):
    """A user wants to hear nothing from another one."""

    user_id: str
    blocked_id: str
    since_ms: int


class Quiet(msgspec.Struct, frozen=True, gc=False):
    """Hours in which the user's devices make no sound. A period that does not end later than it begins ends the next
    day."""

    days: tuple[int, ...]  # on which it begins: 1 is Monday, 7 is Sunday
    since: int  # minutes of the day
    until: int


class Preferences(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A user's own choices. A new choice is one line here: the tables keep them as one value."""

    who_may_write: WhoMay = "anybody"
    who_may_add: WhoMay = "anybody"
    badge: Badge = "loud"
    time_zone: str = "UTC"
    quiet: tuple[Quiet, ...] = ()
    quiet_lets: QuietLets = "mentions"


# --- the cold tier --------------------------------------------------------------------------------

Why = Literal["writing", "rewritten", "damaged", "deleted"]
EVERY_SEGMENT = "*"  # as the s3_ref of a recheck: all that a deleted conversation has left behind


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A conversation that may have something to archive."""

    conversation_id: str
    archived_seq: int  # nothing at or below this number is waiting
    head: int


class Move(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One row's content goes from the row (from_ref None) or a segment to a segment, or back into the row.

    For the way back to_ref is None, and the move carries the content.
    """

    seq_no: int
    rev: int  # as seen
    from_ref: str | None
    to_ref: str | None
    content: Content | None = None


class Recheck(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A request to read this segment again: does it hold exactly what rows still refer to?"""

    conversation_id: str
    s3_ref: str  # or EVERY_SEGMENT
    why: Why
    mark: str  # random: each new request sets another mark, and only the last one may be removed
    since_ms: int


# --- keys, limits and pending deliveries ----------------------------------------------------------


class Override(msgspec.Struct, frozen=True, kw_only=True):
    """An exception to a rate limit: `count` requests of a class in any `window_s` seconds.

    It holds for one user, for one API key, or for every user with the role.
    """

    scope: Scope
    name: str  # the user's id, the role, or the API key's name
    class_name: str
    count: int | None = None  # None: no limit at all; 0: nothing passes
    window_s: int = 60
    changed_ms: int = 0


class Waiting(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The messages of one conversation that a user has not received: one row, however many they are."""

    user_id: str
    conversation_id: str
    first_seq: int
    last_seq: int
    since_ms: int
    expires: int  # seconds since 1970, as the time to live of a DynamoDB row wants it


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    key_hash: str
    name: str
    role: Literal["admin", "readonly", "moderator", "bot"]
    created_ms: int
