"""Answers of the scripts of messaging: the values that a caller gets, and how each is read from the reply.

The stubs in messaging.py name the reader of each script.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from tidings.stores.keyspace.scripts.marks import Mark, unpack_mark

_LISTS_KEPT = 500  # of large conversations, one for each user who looks: 100 of them are 30 KB


class Admitted(msgspec.Struct, frozen=True, gc=False):
    admitted: int
    remaining: int
    retry_after_us: int
    reset_us: int


class Numbered(msgspec.Struct, frozen=True, gc=False):
    """Numbers for a group. `known`: position -> (seq_no, at) of ids that had a number before."""

    members_seq: int
    first_seq: int
    first_at: int
    counter_id: bytes  # a counter that was lost comes back under another one, and may give its numbers again
    known: dict[int, tuple[int, int]]


class Indexed(msgspec.Struct, frozen=True, gc=False):
    """The state of a member after a batch. COLD: counts are None."""

    is_user_cold: bool
    is_cold: bool
    unread_count: int | None
    unread_capped: bool
    total_unread: int | None
    leases: tuple[str, ...]
    version: int = 0  # of the status that the counts belong to
    mention_count: int | None = None
    total_mentions: int | None = None
    unread_conversations: int | None = None
    # Of the threads of the batch that the member follows, by root: unread replies, and threads with unread ones.
    threads: dict[int, tuple[int | None, int | None]] | None = None
    is_back: bool = False  # it was archived, and a new message brings it back

    @property
    def is_late(self) -> bool:
        """Some count of the member is not known yet, and follows."""
        return self.is_cold or self.total_unread is None or self.threads is not None


class Listed(msgspec.Struct, frozen=True, gc=False):
    """One line of an inbox page. `mark` None: this conversation is COLD."""

    conversation_id: str
    score_ms: int
    mark: Mark | None


class Place(NamedTuple):
    """Where a page ended: in this part or filter of the inbox, after this score and id."""

    part: str
    score: int
    conversation_id: str


class Page(msgspec.Struct, frozen=True):
    next: Place | None  # None: nothing comes after this page
    total_unread: int
    unread_conversations: int
    cold: int  # conversations without a mark: while there are any, the totals are not known
    total_mentions: int
    listed: list[Listed]
    large: list[Listed] = []  # all large conversations of the user: no page and no total has them


class UnreadState(msgspec.Struct, frozen=True, gc=False):
    """The totals, and one conversation. `total_unread` None: some conversation is cold; `mark` None: this one is."""

    total_unread: int | None
    unread_conversations: int
    mark: Mark | None
    total_mentions: int = 0
    large: list[Listed] = []  # all large conversations of the user: the totals do not have them


class ReadAnswer(msgspec.Struct, frozen=True, gc=False):
    is_cold: bool
    unread_count: int
    unread_capped: bool
    total_unread: int | None
    first: int
    read_seq: int
    mention_count: int = 0
    first_mention: int = 0
    total_mentions: int = 0

    @property
    def is_enough(self) -> bool:
        """Whether the totals are known, and the oldest unread message without a look into the log."""
        return self.total_unread is not None and (self.first > 0 or self.unread_count == 0)


class Chilled(msgspec.Struct, frozen=True, gc=False):
    """The answer of unread_chill: a mark that is good as it is, or COLD as of `gen`, or neither."""

    is_user_cold: bool
    mark: Mark | None
    gen: str | None  # None without a mark: the conversation is not in the inbox


def is_one(reply: object) -> bool:
    return reply == 1


def known_total(total: int) -> int | None:
    return None if total < 0 else total


def read_admitted(reply: list[int]) -> Admitted:
    return Admitted(*reply)


def read_numbered(reply: list[Any]) -> Numbered | None:
    if not reply:
        return None
    rest = reply[4:]
    known = {rest[i]: (rest[i + 1], rest[i + 2]) for i in range(0, len(rest), 3)}
    return Numbered(reply[0], reply[1], reply[2], reply[3], known)


def read_indexed(reply: list[Any]) -> Indexed:
    state, shown, capped, total, leases, version, mentions, all_mentions, convs = reply
    names = tuple(lease.decode() for lease in leases)
    if state != 1:
        return Indexed(state < 0, True, None, False, None, names, is_back=state == 2)
    known = known_total(total)
    return Indexed(False, False, shown, capped == 1, known, names, version, mentions, all_mentions, convs)


def read_all_indexed(reply: list[Any]) -> list[Indexed]:
    return [read_indexed(one) for one in reply]


def read_first(reply: list[Any]) -> Indexed:
    return read_indexed(reply[0])


def read_page(reply: list[Any]) -> Page | None:
    if not reply:
        return None
    part, score, id_, total, convs, cold, mentions, large = reply[:8]
    place = Place(part.decode(), int(float(score)), id_.decode()) if part else None
    end = len(reply) - 3 * large
    return Page(place, total, convs, cold, mentions, _read_listed(reply[8:end]), _read_large(tuple(reply[end:])))


def _read_listed(flat: Sequence[Any]) -> list[Listed]:
    return [
        Listed(flat[i].decode(), int(float(flat[i + 1])), unpack_mark(flat[i + 2]) if flat[i + 2] else None)
        for i in range(0, len(flat), 3)
    ]


@lru_cache(maxsize=_LISTS_KEPT)
def _read_large(flat: tuple[Any, ...]) -> list[Listed]:
    """The large conversations of a user come with every page. The same ones are the same list, which nobody changes."""
    return _read_listed(flat)


def read_unread_state(reply: list[Any]) -> UnreadState | None:
    if not reply:
        return None
    total, convs, cold, mentions, packed = reply[:5]
    mark, large = unpack_mark(packed) if packed else None, _read_large(tuple(reply[5:]))
    return UnreadState(None if cold else total, convs, mark, mentions, large)


def read_marked(reply: list[int]) -> ReadAnswer:
    state, shown, capped, total, first, read_seq, mentions, first_mention, all_mentions = reply
    known = known_total(total)
    return ReadAnswer(state != 1, shown, capped == 1, known, first, read_seq, mentions, first_mention, all_mentions)


def read_chilled(reply: list[Any]) -> Chilled:
    state, value = reply
    return Chilled(state == -1, unpack_mark(value) if state == 1 else None, value.decode() if state == 0 else None)
