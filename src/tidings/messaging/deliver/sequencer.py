"""Sequencer: one conversation's entries on their way to the sockets of this node, in the order of their numbers.

An entry that is not the next is held. So is an entry that the member list at hand is too old for. An entry that went
out never goes out again. It is bookkeeping without I/O: route.py fills the gaps from the log and pushes what is ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidings.model import Entry
from tidings.routing.bus import Counts

_UNCOUNTED_MAX = 1_000  # entries of a sequencer that are remembered to lack their counts


class Held(NamedTuple):
    """An entry on its way out. `counts` is None where it was read from the log: its counts are not known here yet."""

    entry: Entry
    counts: Mapping[str, Counts] | None
    origin: str | None


class Sequencer:
    """Keeps the order of one conversation on this node."""

    __slots__ = (
        "counting",
        "filling",
        "held",
        "is_miscounted",
        "last",
        "members_seq",
        "moved_s",
        "recheck_from",
        "uncounted",
    )

    def __init__(self, now_s: float) -> None:
        self.last: int | None = None  # the highest number that went out; None: nothing yet
        self.members_seq = 0  # the last member change that went out
        self.held: dict[int, Held] = {}
        self.filling: asyncio.Task[None] | None = None
        self.moved_s = now_s  # when anything went out
        self.uncounted: set[int] = set()  # went out without counts
        self.is_miscounted = False  # so the members here may show old counts
        self.recheck_from: int | None = None  # from here on entries may be in the log that no lane has routed
        self.counting: asyncio.Task[None] | None = None

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
        if self.last is None or members_seq < self.members_seq:
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
        """Whether a member list of this number has every change that is held or went out."""
        held = (held.entry.seq_no for held in self.held.values() if held.entry.changes_members)
        return members_seq >= max(held, default=self.members_seq)

    @property
    def has_gap(self) -> bool:
        return bool(self.held) and (self.last is None or self.last + 1 not in self.held)
