"""Sequencer: one conversation's entries on their way to the sockets of this node, in the order of their numbers.

An entry that is not the next is held. So is an entry that the member list at hand is too old for. Once a list decided,
no older one decides: a member whom the newer list lacks would miss an entry and get a later one. An entry that went out
never goes out again. It is bookkeeping without I/O: route.py fills the gaps from the log and pushes what is ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidings.model import Entry, Member
from tidings.routing.bus import Counts

_UNCOUNTED_MAX = 1_000  # entries of a sequencer that are remembered to lack their counts


class Held(NamedTuple):
    """An entry on its way out. `counts` is None where it was read from the log: its counts are not known here yet."""

    entry: Entry
    counts: Mapping[str, Counts] | None
    origin: str | None


class Leaver:
    """A member whose removal is stored, and is still to go out here. `is_served`: an entry went out since."""

    __slots__ = ("is_served", "member")

    def __init__(self, member: Member) -> None:
        self.member = member
        self.is_served = False


class Sequencer:
    """Keeps the order of one conversation on this node."""

    __slots__ = (
        "counting",
        "filling",
        "held",
        "is_miscounted",
        "last",
        "leaving",
        "list_seq",
        "members_seq",
        "moved_s",
        "recheck_from",
        "uncounted",
    )

    def __init__(self, now_s: float) -> None:
        self.last: int | None = None  # the highest number that went out; None: nothing yet
        self.members_seq = 0  # no member change above it went out
        self.list_seq = 0  # members_seq of the newest list that an entry came with, or that decided who gets one
        self.leaving: dict[str, Leaver] = {}  # by user: they get the entries below their removal (leaving.py)
        self.held: dict[int, Held] = {}
        self.filling: asyncio.Task[None] | None = None
        self.moved_s = now_s  # when anything went out
        self.uncounted: set[int] = set()  # went out without counts
        self.is_miscounted = False  # so the members here may show old counts
        self.recheck_from: int | None = None  # from here on entries may be in the log that no lane has routed
        self.counting: asyncio.Task[None] | None = None

    def begin(self, last: int) -> None:
        """Go on above this number. The changes below it did not pass here, so nobody is known to be leaving."""
        self.last = last
        self.members_seq = max(self.members_seq, self.list_seq)
        self.leaving.clear()

    def hold(
        self, entries: Iterable[Entry], counts: Mapping[str, Counts] | None, origins: Mapping[int, str | None]
    ) -> None:
        """Take entries in. Those that went out before are left out. An entry with counts replaces one without."""
        for entry in entries:
            seq_no = entry.seq_no
            if self.last is None or seq_no > self.last:
                if seq_no not in self.held or self.held[seq_no].counts is None:
                    self.held[seq_no] = Held(entry, counts, origins.get(seq_no))
            elif counts is not None and seq_no in self.uncounted:
                self.uncounted.discard(seq_no)
                self.is_miscounted = True

    def pop_ready(self, members_seq: int) -> list[Held]:
        """Return the entries that go out next, as far as a member list of this number knows their recipients. From a
        member change that the list does not have, they stay held. So nothing reaches a user who has left."""
        ready: list[Held] = []
        if self.last is None or members_seq < self.list_seq:
            return ready
        while (held := self.held.get(self.last + 1)) is not None:
            if held.entry.changes_members:
                if held.entry.seq_no > members_seq:
                    break
                self.members_seq = held.entry.seq_no
            self.last += 1
            ready.append(self.held.pop(self.last))
            if held.counts is None and held.entry.changes_counts:
                self.uncounted.add(self.last)
                self.is_miscounted = True
        if ready:
            self.list_seq = members_seq
        for seq_no in [seq_no for seq_no in self.held if seq_no <= self.last]:
            del self.held[seq_no]
        if len(self.uncounted) > _UNCOUNTED_MAX:
            self.uncounted = {seq_no for seq_no in self.uncounted if seq_no > self.last - _UNCOUNTED_MAX // 2}
        return ready

    def found(self, members_seq: int) -> list[Entry]:
        """Return member changes that go out next and were read from the log, as far as this list has them."""
        changes: list[Entry] = []
        seq_no = self.last
        while seq_no is not None and (held := self.held.get(seq_no + 1)) is not None:
            seq_no += 1
            if held.counts is None and held.entry.member is not None and seq_no <= members_seq:
                changes.append(held.entry)
        return changes

    def is_known_to(self, members_seq: int) -> bool:
        """Whether a member list of this number has every change that is held, went out or was in an earlier list."""
        held = (held.entry.seq_no for held in self.held.values() if held.entry.changes_members)
        return members_seq >= max(held, default=0) and members_seq >= self.list_seq

    @property
    def has_gap(self) -> bool:
        """Whether the log has entries that are to go out before those that are held, or before a removal."""
        if not self.held:
            return self.is_owing
        return self.last is None or self.last + 1 not in self.held

    @property
    def is_owing(self) -> bool:
        """Whether somebody is leaving by a change that is in the log, and perhaps nobody publishes it to this node."""
        return bool(self.leaving) and self.list_seq > (self.last or 0)
