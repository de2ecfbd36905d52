"""What a table adapter owes: small protocols, one per concern, each with its guarantees.

An adapter raises the four store errors of errors.py and leaks nothing else. Every method is safe to call from many
tasks at once; an adapter gathers concurrent calls into few round trips or commits. Reads see every write that was
answered before (consistent). `tests/contracts/` has one suite per port; an adapter adds a ten-line harness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from tidings import bounds
from tidings.model import ApiKey, Entry, Head, Member, Row, Status, User


class Rewrite(msgspec.Struct, frozen=True, kw_only=True):
    """What an edit or delete does to its target, in the commit of its own entry."""

    target_seq: int
    expected_rev: int  # the target's rev as seen; another one means: read again
    text: str | None
    is_deleted: bool
    edited_ms: int | None
    edit_seq: int | None
    wipe_seq: int | None  # the earlier edit entry, whose text goes too


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of one conversation that commit together or not at all, with everything that follows from them.

    `entries` ascend by seq_no. Entries of kind void close numbers that were given up: one whose slot is taken is
    skipped without complaint; it is the only entry that may be.
    """

    conversation_id: str
    entries: tuple[Entry, ...]
    rewrites: tuple[Rewrite, ...] = ()
    members: tuple[Member, ...] = ()  # put as they are; left_seq set = left. Raises members_seq to the entry's seq_no
    rows_added: tuple[Row, ...] = ()
    rows_removed: tuple[str, ...] = ()  # user ids


class Known(msgspec.Struct, frozen=True, gc=False):
    """Where a message_id of this sender was stored before."""

    seq_no: int
    digest: bytes


class Refused(msgspec.Struct, frozen=True):
    """Why a group was not stored. Nothing of it was written.

    `known`: position in `entries` -> the row that has this (sender_id, message_id) already. Read this first.
    `taken`: seq_nos of entries (voids aside) whose slot holds another entry. An entry that is wholly in its own slot
    already (same sender_id and message_id) is `known` with that seq_no, never `taken`.
    `is_stale`: a rewrite's target has another rev.
    """

    known: dict[int, Known]
    taken: frozenset[int]
    is_stale: bool = False
    is_gone: bool = False  # the conversation does not exist (any more)


class Top(msgspec.Struct, frozen=True, gc=False):
    """Where numbering stands, read from the log itself."""

    seq_no: int
    sent_ms: int
    members_seq: int


class Touch(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A later state of a conversation row: applied if the row exists and last_seq is not below the row's. At the same
    last_seq a text does not come back over none: that message was deleted, and the touch is late."""

    user_id: str
    conversation_id: str
    last_seq: int
    last_ms: int
    preview: str | None
    unread_count: int | None = None  # None: leave the snapshot


def preview_of(text: str | None) -> str | None:
    """What an inbox row shows of a message: its beginning, on one line."""
    if text is None:
        return None
    return text[: bounds.PREVIEW_CHARS_MAX].replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


class Messages(Protocol):
    """The log. The row key (conversation_id, seq_no) arbitrates; a counter never does."""

    async def append(self, groups: Sequence[Group]) -> list[Refused | None]:
        """Store each group durably, or say why not (None = stored). Groups do not affect each other.

        In the same commit: dedupe rows (conversation_id, sender_id, message_id) of entries with a message_id; the
        head raised to the highest seq_no, with last_seq, last_ms and preview where an entry of kind message is later
        than the head's (or a rewrite changes the last message's text: preview None when deleted).
        """
        ...

    async def catch_up(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        """The head is not below these entries of the log: whoever stored them may have died before it was raised."""
        ...

    async def page(
        self, conversation_id: str, *, after: int, before: int, limit: int, newest_first: bool
    ) -> list[Entry]:
        """Entries with after < seq_no < before, from the chosen end."""
        ...

    async def top(self, conversation_id: str) -> Top:
        """The highest seq_no in the log (0: empty) with its sent_ms, and the head row's members_seq."""
        ...

    async def unread(self, conversation_id: str, user_id: str, *, after: int, limit: int) -> list[tuple[int, int]]:
        """(seq_no, sent_ms), newest first, of messages after `after`, not deleted, not sent by `user_id`."""
        ...

    async def seq_at(self, conversation_id: str, sent_ms: int) -> int:
        """The highest seq_no whose sent_ms is not later (0: none). sent_ms grows with seq_no."""
        ...


class Conversations(Protocol):
    """conversation_heads and members."""

    async def create(self, head: Head, members: Sequence[Member], rows: Sequence[Row]) -> bool:
        """All of it, or False when the conversation exists."""
        ...

    async def heads(self, conversation_ids: Iterable[str]) -> dict[str, Head]: ...

    async def members(self, conversation_id: str) -> list[Member]:
        """The present ones (left_seq None), by user_id."""
        ...

    async def rename(self, conversation_id: str, *, name: str | None, avatar_url: str | None) -> None:
        """Sets both on the head and on the rows of the present members. Raises Missing."""
        ...

    async def delete(self, conversation_id: str) -> None:
        """Head, members, rows, statuses and log. No complaint if it is gone."""
        ...


class Inboxes(Protocol):
    """conversations: one row per user and conversation. The key never moves."""

    async def rows(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Row]:
        """Exactly the rows named, as far as they exist."""
        ...

    async def scan(self, user_id: str, *, after_id: str, limit: int) -> list[Row]:
        """Rows with conversation_id > after_id, ascending: for a rebuild."""
        ...

    async def touch(self, touches: Sequence[Touch]) -> None:
        """Coalesced updates; never creates a row."""
        ...

    async def flag(
        self, user_id: str, conversation_id: str, *, muted: bool | None, pinned: bool | None, archived: bool | None
    ) -> Row:
        """Sets what is not None and answers the row. Raises Missing."""
        ...

    async def label(self, rows: Sequence[tuple[str, str]], *, name: str, avatar_url: str | None) -> None:
        """(user_id, conversation_id): these rows show this name and picture from now on. Never creates a row."""
        ...

    async def users(self, *, after_id: str, limit: int) -> list[str]:
        """Distinct user_ids that have rows, ascending: for verify."""
        ...


class Statuses(Protocol):
    """message_status: ticks and cursors."""

    async def get(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Status]: ...

    async def of_conversation(self, conversation_id: str) -> list[Status]: ...

    async def put(self, status: Status) -> Status:
        """Stored if the row's version is status.version - 1 (no row: 0), else Conflict.

        delivered_seq and read_seq never go back: the higher of row and argument is kept, and answered.
        """
        ...

    async def deliver(self, marks: Sequence[tuple[str, str, int]]) -> set[tuple[str, str]]:
        """(conversation_id, user_id, delivered_seq): forward only; version, cursor and ranges untouched.

        Returns whose mark moved."""
        ...


class Accounts(Protocol):
    """users, api_keys and the store's own identity."""

    async def user(self, user_id: str) -> User | None: ...

    async def put_user(self, user: User) -> None:
        """name and avatar_url; tokens_valid_after never goes back."""
        ...

    async def api_key(self, key_hash: str) -> ApiKey | None: ...

    async def put_api_key(self, key: ApiKey) -> None: ...

    async def api_keys(self) -> list[ApiKey]:
        """All of them, by name, then by when they were made."""
        ...

    async def remove_api_key(self, key_hash: str) -> bool:
        """Whether it was there."""
        ...

    async def store_epoch(self) -> str:
        """Random, made with the tables, changed only by a restore."""
        ...


class Tables(Messages, Conversations, Inboxes, Statuses, Accounts, Protocol):
    """What one adapter class offers; a use case asks only for the port that it needs."""

    async def ping(self) -> None:
        """Raises Unavailable when the tables cannot answer now."""
        ...

    async def close(self) -> None: ...
