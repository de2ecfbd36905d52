"""Gaps: numbers below the head that hold no entry yet.

A number is handed out before its row is committed, so a later number may be seen first. Nobody reads past a gap:
an entry that came later would be skipped for ever. A gap is a commit under way, or the mark of a crash. After
GAP_CLOSE_S the reader closes the gap with a void and goes on. That time counts from the lowest entry above the gap or,
whatever the clocks say, from when this node first met it. The void's put is conditional, so a writer that was only slow
loses the number and takes another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import takewhile

from tidings.bounds import GAP_CLOSE_S, PAGE_MAX
from tidings.clock import Clock
from tidings.errors import StoreError
from tidings.model import Entry, void_at
from tidings.stores.tables.ports import Conversations, Messages
from tidings.stores.tables.values import Group, Refused
from tidings.tasks import Recent

NEWEST = 1 << 53  # a place above every number
_VOIDS_MAX = 1_000  # written in one commit; a counter that ran far ahead leaves more, which are closed in turns
_MET_MAX = 10_000  # gaps remembered; forgetting one only makes it wait again
_WAIT_S = 0.05  # a page that begins at a gap waits for it, and checks this often


def first_open(entries: Sequence[Entry], after: int) -> int | None:
    """The lowest number without an entry in an ascending run that should begin at after + 1."""
    for expected, entry in enumerate(entries, start=after + 1):
        if entry.seq_no != expected:
            return expected
    return None


async def entry_at(messages: Messages, conversation_id: str, seq_no: int) -> Entry | None:
    """The entry with this number, or None."""
    found = await messages.page(conversation_id, after=seq_no - 1, before=seq_no + 1, limit=1, newest_first=False)
    return found[0] if found else None


async def is_decided(messages: Messages, conversation_id: str, seq_no: int, above: int) -> bool:
    """Whether no change of members may be stored any more at this number, or below it and above the other one.

    Whatever gets a number above a change waits for it. So nothing but voids can stand above a change under way: they
    may close what waited for it."""
    expected, size = seq_no, 2
    while expected > above:
        page = await messages.page(conversation_id, after=above, before=expected + 1, limit=size, newest_first=True)
        for entry in page:
            if entry.seq_no != expected or not entry.is_void:
                return entry.seq_no == expected
            expected -= 1
        if len(page) < size:
            break
        size = PAGE_MAX
    return expected <= above


class Log:
    """Reads runs of the log without ever stepping over a gap."""

    def __init__(
        self, messages: Messages, conversations: Conversations, clock: Clock, count_repair: Callable[[str, int], None]
    ) -> None:
        self._messages = messages
        self._conversations = conversations
        self._clock = clock
        self._count_repair = count_repair
        self._met = Recent[tuple[str, int], float](_MET_MAX)  # gaps -> when we first met them

    async def entry(self, conversation_id: str, seq_no: int) -> Entry | None:
        """The entry with this number, or None. It has its content also where that is archived."""
        return await entry_at(self._messages, conversation_id, seq_no)

    async def after(self, conversation_id: str, after: int, limit: int) -> list[Entry]:
        """Ascending, gapless from after + 1; ends below the first gap."""
        while True:
            entries = await self._rising(conversation_id, after, limit)
            gap = first_open(entries, after)
            if gap is None:
                return entries
            if gap <= (floor_seq := await self._floor(conversation_id)):
                after = floor_seq  # no gap: these entries were removed
                continue
            if not await self._close_old(conversation_id, entries, after, due=self._due(conversation_id, gap)):
                return [entry for entry in entries if entry.seq_no < gap]

    async def above(self, conversation_id: str, after: int, limit: int) -> list[Entry]:
        """Oldest first, gaps or not: for a caller that holds back by itself what is not the next."""
        return await self._messages.page(conversation_id, after=after, before=NEWEST, limit=limit, newest_first=False)

    async def before(self, conversation_id: str, before: int, limit: int) -> list[Entry]:
        """Newest first, gapless. The newest page begins below a gap: what is above it is held back.

        A reader who pages down from an entry has everything above it: the page begins with the next number and ends
        above a gap. Where the next number is itself a gap, the page waits for it, GAP_CLOSE_S at most.
        """
        is_newest = before >= NEWEST
        while True:
            entries = await self._messages.page(conversation_id, after=0, before=before, limit=limit, newest_first=True)
            run = entries[::-1]
            lowest = run[0].seq_no - 1 if len(run) == limit else 0  # a short page must reach down to 1
            if not is_newest and (run[-1].seq_no if run else 0) < before - 1:
                above = await self._rising(conversation_id, before - 1, 1)
                is_newest = not above
                run += above
            gap = first_open(run, lowest)
            if gap is not None and gap <= (floor_seq := await self._floor(conversation_id)):
                entries = [entry for entry in entries if entry.seq_no > floor_seq]
                run = [entry for entry in run if entry.seq_no > floor_seq]
                gap = first_open(run, max(lowest, floor_seq))
            if gap is None:
                return entries
            due = self._due(conversation_id, gap)
            if await self._close_old(conversation_id, run, lowest, due=due):
                continue
            if is_newest:
                before = gap
            elif next_ones := _run_below(entries, before):
                return next_ones
            else:
                await asyncio.sleep(_WAIT_S)

    async def down(
        self, conversation_id: str, before: int, is_wanted: Callable[[Entry], bool], most: int
    ) -> tuple[list[Entry], bool]:
        """Newest first and gapless, for as long as they are wanted; and whether that went down to 1 or a gap."""
        found: list[Entry] = []
        while len(found) < most:
            page = await self.before(conversation_id, found[-1].seq_no if found else before, PAGE_MAX)
            wanted = list(takewhile(is_wanted, page))
            found += wanted
            if len(wanted) < PAGE_MAX:
                return found, len(wanted) == len(page)
        return found, False

    async def top(self, conversation_id: str) -> int:
        """The highest number in the log itself."""
        return (await self._messages.top(conversation_id)).seq_no

    async def close(self, conversation_id: str, first: int, last: int) -> None:
        """Void what is open from first to last, whatever its age: nobody is going to fill it."""
        last = min(last, first + _VOIDS_MAX - 1)
        earlier = await self._messages.page(conversation_id, after=0, before=first, limit=1, newest_first=True)
        there = await self._messages.page(
            conversation_id, after=first - 1, before=last + 1, limit=_VOIDS_MAX, newest_first=False
        )
        at_ms = {entry.seq_no: entry.sent_ms for entry in there}
        # A void has the time of the entry below it, so every reader that closes some of them makes the same times.
        before_ms = earlier[0].sent_ms if earlier else min(at_ms.values(), default=1)
        voids = []
        for seq_no in range(first, last + 1):
            before_ms = at_ms.get(seq_no, before_ms)
            if seq_no not in at_ms:
                voids.append(void_at(conversation_id, seq_no, before_ms))
        await self._write(conversation_id, voids)

    async def close_down(self, conversation_id: str, last: int, above: int) -> None:
        """Void what is open from `last` down to the number above `above`, and no more than fits one commit."""
        await self.close(conversation_id, max(above, last - _VOIDS_MAX) + 1, last)

    async def _floor(self, conversation_id: str) -> int:
        """Entries at or below this number were removed, and leave no gap."""
        heads = await self._conversations.heads([conversation_id])
        return heads[conversation_id].floor_seq if conversation_id in heads else 0

    async def _rising(self, conversation_id: str, after: int, limit: int) -> list[Entry]:
        return await self._messages.page(conversation_id, after=after, before=1 << 62, limit=limit, newest_first=False)

    def _due(self, conversation_id: str, seq_no: int) -> int | None:
        """The gap, if we have known it for long enough: a keyspace whose clock is ahead dates entries late."""
        now_s = self._clock.monotonic_s()
        met_s = self._met.get((conversation_id, seq_no))
        if met_s is None:
            self._met.put((conversation_id, seq_no), now_s)
            return None
        return seq_no if now_s - met_s > GAP_CLOSE_S else None

    async def _close_old(self, conversation_id: str, rising: Sequence[Entry], after: int, *, due: int | None) -> bool:
        """Void the gaps of a run that are old enough, or due. True: some were, read again."""
        voids: list[Entry] = []
        before_seq, before_ms = after, 0
        now_ms = self._clock.now_ms()
        for entry in rising:
            is_old = before_seq + 1 == due or now_ms - entry.sent_ms > GAP_CLOSE_S * 1000
            if entry.seq_no > before_seq + 1 and not is_old:
                break
            for seq_no in range(before_seq + 1, min(entry.seq_no, before_seq + 1 + _VOIDS_MAX - len(voids))):
                # Times never go back, so both lie between the neighbours' times.
                voids.append(void_at(conversation_id, seq_no, before_ms or entry.sent_ms))
            before_seq, before_ms = entry.seq_no, entry.sent_ms
        return await self._write(conversation_id, voids)

    async def _write(self, conversation_id: str, voids: Sequence[Entry]) -> bool:
        """False: there was nothing to write, or the conversation is gone."""
        if not voids:
            return False
        (verdict,) = await self._messages.append([Group(conversation_id=conversation_id, entries=tuple(voids))])
        if isinstance(verdict, Refused):
            return False
        assert not isinstance(verdict, StoreError)  # a single group without a verdict raises
        left_out = len(verdict.left_out) if verdict is not None else 0
        self._count_repair("void", len(voids) - left_out)
        return True


def _run_below(entries: Sequence[Entry], before: int) -> list[Entry]:
    """Of entries newest first, those that follow `before` without a gap."""
    return [entry for below, entry in enumerate(entries, start=1) if entry.seq_no == before - below]
