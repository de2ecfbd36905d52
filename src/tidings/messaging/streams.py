"""One conversation's entries on their way to the sockets of this node, in the order of their numbers.

An entry that is not the next is held; what went out never goes out again. Pure bookkeeping without I/O: deliver.py
fills the gaps from the log and pushes what is ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidings.model import Entry
from tidings.routing.bus import Counts

_UNCOUNTED_MAX = 1_000  # entries of a stream that are remembered to lack their counts
_COUNTING = frozenset(("message", "delete"))  # kinds of entries that change counts


class Held(NamedTuple):
    """An entry on its way out. `counts` is None where the log was read: then whoever indexed it has not spoken yet."""

    entry: Entry
    counts: Mapping[str, Counts] | None
    origin: str | None


class Stream:
    """One conversation's entries on their way to the sockets of this node."""

    __slots__ = ("counting", "filling", "held", "is_miscounted", "last", "moved_s", "uncounted")

    def __init__(self, now_s: float) -> None:
        self.last: int | None = None  # the highest number that went out; None: nothing yet
        self.held: dict[int, Held] = {}
        self.filling: asyncio.Task[None] | None = None
        self.moved_s = now_s  # when anything went out
        self.uncounted: set[int] = set()  # went out without counts
        self.is_miscounted = False  # so the members here may show old counts
        self.counting: asyncio.Task[None] | None = None

    def hold(
        self, entries: Iterable[Entry], counts: Mapping[str, Counts] | None, origins: Mapping[int, str | None]
    ) -> None:
        """What went out before is left out; who has counts goes before who has none."""
        for entry in entries:
            seq_no = entry.seq_no
            if self.last is None or seq_no > self.last:
                if seq_no not in self.held or self.held[seq_no].counts is None:
                    self.held[seq_no] = Held(entry, counts, origins.get(seq_no))
            elif counts is not None and seq_no in self.uncounted:
                self.uncounted.discard(seq_no)
                self.is_miscounted = True

    def pop_ready(self) -> list[Held]:
        """Those that follow what went out."""
        ready: list[Held] = []
        if self.last is None:
            return ready
        while (held := self.held.pop(self.last + 1, None)) is not None:
            ready.append(held)
            self.last += 1
            if held.counts is None and held.entry.kind in _COUNTING:
                self.uncounted.add(self.last)
                self.is_miscounted = True
        for seq_no in [seq_no for seq_no in self.held if seq_no <= self.last]:
            del self.held[seq_no]
        if len(self.uncounted) > _UNCOUNTED_MAX:
            self.uncounted = {seq_no for seq_no in self.uncounted if seq_no > self.last - _UNCOUNTED_MAX // 2}
        return ready

    @property
    def has_gap(self) -> bool:
        return bool(self.held) and (self.last is None or self.last + 1 not in self.held)
