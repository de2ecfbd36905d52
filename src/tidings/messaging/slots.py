"""Open slots: numbers below the head that hold no entry yet.

A number is handed out before its row is committed, so a later number may be seen first. Nobody reads past an open slot:
what comes after it would be skipped for ever. It is somebody's commit under way, or the mark of a crash; past
OPEN_SLOT_S, counted from the lowest entry above it, the reader closes it with a void and goes on. The void's put is
conditional, so a writer who was only slow loses the slot and takes another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidings.bounds import OPEN_SLOT_S
from tidings.clock import Clock
from tidings.model import Entry
from tidings.stores.ports import Group, Messages


def first_open(entries: Sequence[Entry], after: int) -> int | None:
    """The lowest number without an entry in an ascending run that should begin at after + 1."""
    for expected, entry in enumerate(entries, start=after + 1):
        if entry.seq_no != expected:
            return expected
    return None


class Slots:
    """Reads runs of the log without ever stepping over an open slot."""

    def __init__(self, messages: Messages, clock: Clock, count_repair: Callable[[str, int], None]) -> None:
        self._messages = messages
        self._clock = clock
        self._count_repair = count_repair

    async def after(self, conversation_id: str, after: int, limit: int) -> list[Entry]:
        """Ascending, gapless from after + 1; ends below the first open slot."""
        while True:
            entries = await self._messages.page(
                conversation_id, after=after, before=1 << 62, limit=limit, newest_first=False
            )
            gap = first_open(entries, after)
            if gap is None:
                return entries
            if not await self._close(conversation_id, entries, after):
                return [entry for entry in entries if entry.seq_no < gap]

    async def before(self, conversation_id: str, before: int, limit: int) -> list[Entry]:
        """Newest first, gapless; entries above an open slot are held back."""
        while True:
            entries = await self._messages.page(
                conversation_id, after=0, before=before, limit=limit, newest_first=True
            )
            if not entries:
                return []
            rising = entries[::-1]
            gap = first_open(rising, rising[0].seq_no - 1)
            # A full page ends anywhere; a short one must reach down to 1.
            if gap is None and (len(entries) == limit or rising[0].seq_no == 1):
                return entries
            lowest = rising[0].seq_no - 1 if gap is not None else 0
            if not await self._close(conversation_id, rising, lowest):
                before = gap if gap is not None else 1

    async def _close(self, conversation_id: str, rising: Sequence[Entry], after: int) -> bool:
        """Void the open slots of a run that are old enough. True: some were, read again."""
        voids: list[Entry] = []
        before_seq, before_ms = after, 0
        now_ms = self._clock.now_ms()
        for entry in rising:
            is_old = now_ms - entry.sent_ms > OPEN_SLOT_S * 1000
            if entry.seq_no > before_seq + 1 and not is_old:
                break
            for seq_no in range(before_seq + 1, entry.seq_no):
                sent_ms = before_ms + (seq_no - before_seq) if before_ms else entry.sent_ms - (entry.seq_no - seq_no)
                voids.append(
                    Entry(conversation_id=conversation_id, seq_no=seq_no, kind="void", sent_ms=sent_ms)
                )
            before_seq, before_ms = entry.seq_no, entry.sent_ms
        if voids:
            await self._messages.append([Group(conversation_id=conversation_id, entries=tuple(voids))])
            self._count_repair("void", len(voids))
        return bool(voids)
