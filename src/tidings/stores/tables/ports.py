"""The table ports: one small protocol per concern, and `Tables`, the record of all ports of one opened adapter.

An adapter raises the four store errors of errors.py and nothing else. Many tasks may call at once: calls share round
trips or commits. Reads see every write that was answered before. `tests/contracts/` has one suite per port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidings.bounds import GROUP_ENTRIES_MAX
from tidings.errors import StoreError
from tidings.model import Entry, Head, Member, Row, Status, User
from tidings.stores.tables.cold import Archive
from tidings.stores.tables.records import Records
from tidings.stores.tables.search import SearchIndex
from tidings.stores.tables.values import (
    Answer,
    ApiKey,
    Block,
    Device,
    Group,
    Override,
    Preferences,
    Top,
    Touch,
    Waiting,
)
from tidings.stores.tables.whole import Whole


class Messages(Protocol):
    """messages: the log. The row key (conversation_id, seq_no) arbitrates; a counter never does."""

    async def append(self, groups: Sequence[Group]) -> Sequence[Answer]:
        """Store each group durably, or say why not. Groups do not affect each other.

        The verdict answers for each entry: None = all were written, `Stored` = all except the voids that it names,
        `Refused` = none. A group that the store did not decide has a StoreError in its place, and the others keep
        their verdicts. Raises the error when no group was decided.

        The same commit holds the dedupe rows (conversation_id, sender_id, message_id) of entries with a message_id.
        It raises the head to the highest seq_no, with last_seq, last_ms and preview where an entry of kind message is
        later than the head's (or a rewrite changes the last message's text: preview None when deleted).
        """
        ...

    async def catch_up(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        """Raise the head to these entries of the log: the node that stored them may have died before it did."""
        ...

    async def page(
        self, conversation_id: str, *, after: int, before: int, limit: int, newest_first: bool
    ) -> list[Entry]:
        """Entries with after < seq_no < before, from the chosen end."""
        ...

    async def top(self, conversation_id: str) -> Top:
        """The highest seq_no in the log (0: empty) with its sent_ms, and the head row's members_seq."""
        ...

    async def unread(
        self, conversation_id: str, user_id: str, *, after: int, limit: int, but: Collection[str] = ()
    ) -> list[tuple[int, bool]]:
        """(seq_no, does it mention the user), newest first: counted messages, none of `user_id` or of `but`."""
        ...

    async def seq_at(self, conversation_id: str, sent_ms: int) -> int:
        """The highest seq_no whose sent_ms is not later (0: none). sent_ms grows with seq_no."""
        ...


class Conversations(Protocol):
    """conversation_heads and members."""

    async def create(self, head: Head, members: Sequence[Member], rows: Sequence[Row]) -> bool:
        """Store all of it, or answer False when the conversation exists."""
        ...

    async def heads(self, conversation_ids: Iterable[str]) -> dict[str, Head]: ...

    async def members(self, conversation_id: str) -> list[Member]:
        """The present members (left_seq None), by user_id."""
        ...

    async def members_after(self, conversation_id: str, *, after_id: str, limit: int) -> list[Member]:
        """The present members with user_id > after_id, by user_id: a page of a long list."""
        ...

    async def named(self, conversation_id: str, user_ids: Iterable[str]) -> list[Member]:
        """Those of these users who are members now."""
        ...

    async def former(self, conversation_id: str, user_ids: Iterable[str]) -> list[Member]:
        """Those of these users who were members or are invited, and are not members now."""
        ...

    async def invite(self, members: Sequence[Member], rows: Sequence[Row]) -> None:
        """Put these member rows (left_seq set) and inbox rows, except those of users who are members now."""
        ...

    async def withdraw(self, conversation_id: str, user_id: str) -> bool:
        """Remove the inbox row of an invited user, and answer whether there was one."""
        ...

    async def rename_rows(self, conversation_id: str) -> None:
        """Give the rows of the present members the name and the picture of the head, unless its commit did."""
        ...

    async def delete(self, conversation_id: str) -> None:
        """Delete head, members, rows, statuses, records and log. A conversation that is gone is no error."""
        ...


class Inboxes(Protocol):
    """conversations: one row per user and conversation. The key never moves."""

    async def rows(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Row]:
        """Exactly the rows named, as far as they exist."""
        ...

    async def scan(self, user_id: str, *, after_id: str, limit: int) -> list[Row]:
        """Rows with conversation_id > after_id, ascending: for a rebuild."""
        ...

    async def latest(self, user_id: str, *, before: tuple[int, str] | None, limit: int) -> list[Row]:
        """The rows that are shown and lie before this place in the inbox, the newest first.

        A place is (the later of last_message_ts and joined_ms, at least 1; conversation_id). None: the beginning.
        """
        ...

    async def unread(self, user_id: str) -> tuple[int, int]:
        """The sum of the unread counts that the user's rows know, and how many rows have any."""
        ...

    async def touch(self, touches: Sequence[Touch]) -> None:
        """Apply coalesced updates; never create a row. An unread_count is never one from before a later status."""
        ...

    async def flag(self, user_id: str, conversation_id: str, changes: Mapping[str, object]) -> Row:
        """Set these of FLAGS to their values and answer the row. Raises Missing."""
        ...

    async def hide(self, user_id: str, conversation_id: str, *, up_to_seq: int) -> None:
        """Hide the row until its conversation has a message above up_to_seq. A missing row is no error."""
        ...

    async def label(self, rows: Sequence[tuple[str, str]], *, name: str, avatar_url: str | None) -> None:
        """Set name and picture of these rows (user_id, conversation_id); never create a row."""
        ...

    async def users(self, *, after_id: str, limit: int) -> list[str]:
        """Distinct user_ids that have rows, ascending: for verify."""
        ...


class Statuses(Protocol):
    """message_status: receipts and cursors."""

    async def get(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Status]: ...

    async def of_conversation(self, conversation_id: str) -> list[Status]: ...

    async def of_members(self, conversation_id: str, user_ids: Iterable[str]) -> list[Status]:
        """The statuses of these users alone, by user_id: for a page of the members of a large conversation."""
        ...

    async def put(self, status: Status) -> Status:
        """Store the status if the row's version is status.version - 1 (no row: 0), else raise Conflict.

        delivered_seq and read_seq never go back: the higher of row and argument is kept with its time, and answered.
        The inbox row keeps no unread_count from before this status.
        """
        ...

    async def put_each(self, statuses: Sequence[Status]) -> list[Status | StoreError]:
        """Put each as `put` does, of different members. One that is refused holds up no other."""
        ...

    async def deliver(self, marks: Sequence[tuple[str, str, int]], at_ms: int = 0) -> set[tuple[str, str]]:
        """Raise delivered_seq of (conversation_id, user_id, delivered_seq); leave version, cursor and ranges.

        `at_ms` is the time of the marks that move. Returns the (conversation_id, user_id) whose mark moved.
        """
        ...


class Accounts(Protocol):
    """users, api_keys and the store's own identity."""

    async def user(self, user_id: str) -> User | None: ...

    async def users(self, user_ids: Iterable[str]) -> dict[str, User]: ...

    async def put_user(self, user: User) -> None:
        """Set name and avatar_url; tokens_valid_after never goes back."""
        ...

    async def api_key(self, key_hash: str) -> ApiKey | None: ...

    async def put_api_key(self, key: ApiKey) -> None: ...

    async def api_keys(self) -> list[ApiKey]:
        """All keys, by name, then by the time they were made."""
        ...

    async def remove_api_key(self, key_hash: str) -> bool:
        """Remove the key and answer whether it was there."""
        ...

    async def store_epoch(self) -> str:
        """Random, made with the tables, changed only by a restore."""
        ...

    @property
    def secret(self) -> str:
        """Random, made once with the tables and never changed: the key of what nobody outside may compute."""
        ...


class Devices(Protocol):
    """devices: one row per user and device."""

    async def put(self, device: Device) -> tuple[str, str] | None:
        """Put the device as it is. A token belongs to one device: the device that had it before loses its row.

        Returns the user_id and device_id of that device, if there was one. Beyond DEVICES_PER_USER_MAX the device of
        this user that was seen longest ago goes.
        """
        ...

    async def of_user(self, user_id: str) -> list[Device]:
        """The devices of a user, by device_id."""
        ...

    async def of_users(self, user_ids: Iterable[str]) -> dict[str, list[Device]]:
        """The devices of those users who have any."""
        ...

    async def touch(self, seen: Mapping[tuple[str, str], int]) -> None:
        """(user_id, device_id) -> last_seen_ms, which never goes back. A missing row is no error."""
        ...

    async def remove(self, user_id: str, *, device_id: str | None = None, token: str | None = None) -> int:
        """Remove the user's devices that fit all that is named (nothing named: all), and answer how many."""
        ...


class Pending(Protocol):
    """pending_deliveries: one row per user and conversation with something undelivered past the grace time."""

    async def put(self, rows: Sequence[Waiting]) -> None:
        """Make a row, or give the row a later end: first_seq and since_ms stay, last_seq never goes back."""
        ...

    async def of_conversation(self, conversation_id: str, user_ids: Iterable[str]) -> dict[str, Waiting]:
        """The rows of these users in one conversation, as far as something waits for them."""
        ...

    async def of_user(self, user_id: str) -> list[Waiting]:
        """Everything that waits for a user, by conversation_id."""
        ...

    async def clear(self, marks: Sequence[tuple[str, str, int]]) -> None:
        """(conversation_id, user_id, delivered_seq): the row goes, or begins after it. A missing row is no error."""
        ...

    async def expire(self, now_ms: int) -> int:
        """Remove rows that are over, or that wait for nobody, and answer how many.

        So a node that died between a receipt and its clearing leaves no row behind.
        """
        ...


class Overrides(Protocol):
    """rate_overrides: the exceptions to the rate limits, one row per (scope, name, class_name).

    There are few of them, so all are read together; `version` says cheaply whether they changed.
    """

    async def put(self, override: Override) -> None:
        """Make the exception, or replace it as a whole. Changes the version."""
        ...

    async def remove(self, scope: str, name: str, class_name: str) -> bool:
        """Answer whether there was one. Changes the version if so."""
        ...

    async def all(self) -> Sequence[Override]:
        """All of them, by scope, name and class."""
        ...

    async def version(self) -> str:
        """Another text after every change; empty before the first. Read before `all`, it is never too new."""
        ...


class People(Protocol):
    """blocks and preferences: what a user wants from others."""

    async def block(self, block: Block) -> bool:
        """Store the block, or answer False when the user has blocked the other already."""
        ...

    async def unblock(self, user_id: str, blocked_id: str) -> bool:
        """Remove the block and answer whether it was there."""
        ...

    async def blocks_of(self, user_id: str) -> list[Block]:
        """The blocks that the user has set, by blocked_id."""
        ...

    async def blockers_of(self, user_ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """Of each of these users, the people who have blocked them."""
        ...

    async def preferences(self, user_ids: Iterable[str]) -> dict[str, Preferences]:
        """The preferences of those users who have stored any."""
        ...

    async def put_preferences(self, user_id: str, preferences: Preferences) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counters of an adapter's work, for the metrics. All are called on the event loop."""

    read: Callable[[str, int], object]  # table, rows
    write: Callable[[str, int], object]  # table, rows
    units: Callable[[str, float], object]  # "read" or "write", and what the store charges for it


def _uncounted(name: str, amount: float) -> None: ...


async def _next_turn() -> None:
    await asyncio.sleep(0)


async def _nothing_to_wipe() -> bool:
    return True


NO_COUNTS = Counts(read=_uncounted, write=_uncounted, units=_uncounted)  # for work outside a node


@dataclass(frozen=True, kw_only=True)
class Tables:
    """All ports of one opened adapter. A use case takes the ports that it needs."""

    log: Messages
    conversations: Conversations
    inboxes: Inboxes
    statuses: Statuses
    accounts: Accounts
    devices: Devices
    pending: Pending
    overrides: Overrides
    people: People
    records: Records
    archive: Archive
    whole: Whole
    search: SearchIndex | None = None  # None: messages are found by reading them
    commit_max: int = GROUP_ENTRIES_MAX  # entries and records of one group: a larger one may be several commits
    # Returns in a later turn of the loop. Work that keeps the loop busy lets a commit that is under way pass here.
    quiet: Callable[[], Awaitable[None]] = _next_turn
    ping: Callable[[], Awaitable[None]]  # raises Unavailable when the tables cannot answer now
    close: Callable[[], Awaitable[None]]
    # Overwrites what the files keep of removed texts. False: somebody reads them, so try again. Raises Unavailable.
    wipe: Callable[[], Awaitable[bool]] = _nothing_to_wipe
