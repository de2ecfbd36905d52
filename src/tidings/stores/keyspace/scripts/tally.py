"""Stubs of the tally: the index of one large conversation, from which the counts of each member are made.

A message is one word in it: "number sender mentioned ...". Only this module and the Lua files know that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from tidings.bounds import INDEX_TTL_S
from tidings.model import Entry, Ranges
from tidings.stores.keyspace.call import Arg, Call, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.library import Library

R = TypeVar("R")
NAMES = ("tally_add", "tally_begin", "tally_fill", "tally_settle", "tally_count")
_REVISED = frozenset(("tally_add", "tally_begin", "tally_count"))  # they move the `rev`, or read it
TALLY_VERSION = 1  # of the form of the tally; one of another form is cold
_library = Library(NAMES)
SOURCES = _library.sources
_NOBODY = "*"  # no user id: the sender of a message that has none


class Added(NamedTuple):
    is_open: bool  # False: the tally is cold, and the next reader builds it
    is_settled: bool  # False: members may have marks from before the conversation became large


class Begun(NamedTuple):
    is_warm: bool
    build: str | None  # the name to fill it under; None: the line is an old one


class Tallied(msgspec.Struct, frozen=True, gc=False):
    """The counts of one member. `first` and `first_mention` None: not found here, so the tables must be asked."""

    count: int
    is_capped: bool
    first: int | None
    mentions: int
    first_mention: int | None
    last_ms: int  # of the last message


class Answer(NamedTuple):
    """`counts` None with a tally that is warm: the tables must be asked."""

    is_cold: bool
    counts: Tallied | None
    last_ms: int
    rev: bytes = b""  # of the tally: while it stays, the counts stay


class TallyScripts:
    def __init__(self, keys: Keys, *, cap: int) -> None:
        self._keys = keys
        self._cap = cap
        self._tag = f"|{TALLY_VERSION}|{2 * cap}"
        self.keep = 2 * cap  # members who wrote or read singly up to `cap` of the newest are still counted here

    def tally_add(
        self, conversation_id: str, line_ms: int, entries: Sequence[Entry], removed: Sequence[int], *, rev: str
    ) -> Call[Added]:
        """`rev`: a name that no other change has."""
        last_ms = max((entry.sent_ms for entry in entries if entry.bumps), default=0)
        words = words_of(entries)
        args: tuple[Arg, ...] = (line_ms, self.keep, INDEX_TTL_S, rev, last_ms, len(removed), *removed, *words)
        return self._call("tally_add", conversation_id, args, lambda reply: Added(reply[0] == 1, reply[1] == 1))

    def tally_begin(self, conversation_id: str, line_ms: int, token: str) -> Call[Begun]:
        """`token`: the name of the build, unless one is under way."""
        return self._call("tally_begin", conversation_id, (line_ms, INDEX_TTL_S, token), _read_begun)

    def tally_fill(
        self,
        conversation_id: str,
        line_ms: int,
        build: str,
        entries: Iterable[Entry],
        *,
        floor: int = 0,
        last_ms: int = 0,
        is_end: bool = False,
    ) -> Call[bool]:
        """False: the build was lost, begin again."""
        args: tuple[Arg, ...] = (line_ms, build, INDEX_TTL_S, floor, last_ms, int(is_end), *words_of(entries))
        return self._call("tally_fill", conversation_id, args, lambda reply: reply == 1)

    def tally_settle(self, conversation_id: str, line_ms: int) -> Call[int]:
        return self._call("tally_settle", conversation_id, (line_ms, INDEX_TTL_S), int)

    def tally_count(
        self, conversation_id: str, line_ms: int, user_id: str, *, seen: int, ranges: Ranges, blocked: Sequence[str]
    ) -> Call[Answer]:
        bounds = [bound for one in ranges for bound in one]
        args: tuple[Arg, ...] = (line_ms, self._cap, user_id, seen, len(blocked), *blocked, *bounds)
        return self._call("tally_count", conversation_id, args, _read_answer)

    def revs(self, conversation_ids: Iterable[str], *, is_one_server: bool) -> list[Call[list[bytes | None]]]:
        """The calls that answer the `rev` of each tally, in their order: one where one server has them all."""
        keys = [self._keys.rev(id_) for id_ in conversation_ids]
        groups = [keys] if is_one_server else [[key] for key in keys]
        return [plain(some[0], b"MGET", *some) for some in groups if some]

    def rev_of(self, epoch: str) -> bytes:
        """How each `rev` of this epoch begins."""
        return f"{epoch}{self._tag} ".encode()

    def _call(self, name: str, conversation_id: str, args: tuple[Arg, ...], parse: Callable[[Any], R]) -> Call[R]:
        keys: tuple[str, ...] = (self._keys.tally(conversation_id),)
        if name in _REVISED:
            keys = (*keys, self._keys.rev(conversation_id))
        return _library.call(name, keys, args, parse, epoch_tag=self._tag)


def forget_tally(keys: Keys, conversation_id: str) -> list[Call[Any]]:
    """The calls that make a tally cold: the next reader builds it from the tables."""
    tally, rev = keys.tally(conversation_id), keys.rev(conversation_id)
    return [plain(tally, b"HDEL", tally, b"state"), plain(rev, b"DEL", rev)]


def words_of(entries: Iterable[Entry]) -> list[str]:
    return [
        " ".join((str(entry.seq_no), entry.sender_id or _NOBODY, *entry.mentions)) for entry in entries if entry.counts
    ]


def _read_begun(reply: list[Any]) -> Begun:
    return Begun(reply[0] == 1, reply[1].decode() if reply[0] != -1 else None)


def _read_answer(reply: list[Any]) -> Answer:
    state, count, capped, first, mentions, first_mention, last_ms, rev = reply
    if state != 1:
        return Answer(state == 0, None, last_ms)
    oldest = [None if one < 0 else one for one in (first, first_mention)]
    return Answer(False, Tallied(count, capped == 1, oldest[0], mentions, oldest[1], last_ms), last_ms, rev)
