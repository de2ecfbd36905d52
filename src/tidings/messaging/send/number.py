"""Stage: number. The keyspace hands out numbers; the log has the last word on them.

A counter that is missing, or of another epoch, is seeded from the log first (counters.py). A counter that was lost may
give its numbers again, so it begins under another counter_id, and the group keeps no void of the lost one. The same
round trip asks the limiter about senders with plenty of budget, and writes the open work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tidings.bounds import RENUMBER_MAX
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.messaging.send.admit import Admit
from tidings.messaging.send.batch import Batch, BatchGroup
from tidings.messaging.send.counters import Counters
from tidings.messaging.send.draft import Draft
from tidings.messaging.send.members import Members
from tidings.messaging.send.open_work import OpenWork
from tidings.model import KINDS, Entry
from tidings.stores.keyspace.call import Call, Keyspace
from tidings.stores.keyspace.scripts.answers import Numbered
from tidings.stores.keyspace.scripts.messaging import Scripts


@dataclass(eq=False, repr=False)
class Number:
    keyspace: Keyspace
    scripts: Scripts
    counters: Counters
    members: Members
    admit: Admit
    open_work: OpenWork
    clock: Clock
    node_id: str

    async def assign(self, batch: Batch) -> None:
        """Give every draft of the batch a number. Raises Unavailable."""
        limits = self.admit.reserve(batch)
        if not batch.live and not limits:
            return
        try:
            replies = await self.number(batch.live, [*limits, *self.open_work.opening(batch.live)])
        finally:
            self.admit.release(batch)
        await self.admit.decide(batch, replies[: len(limits)])
        self.open_work.opened(batch.live)
        batch.lap("number")

    async def number(self, groups: Sequence[BatchGroup], first: Sequence[Call[Any]] = ()) -> list[Any]:
        """Give a number to every draft that has none. The calls of `first` go ahead in the same round trip.

        Their replies are the first of those returned. Raises Unavailable.
        """
        waiting = list(groups)
        answers: list[Any] = []
        for _ in range(RENUMBER_MAX):
            replies: list[Any] = await self.keyspace.run([*first, *map(self._call, waiting)])
            answers += replies[: len(first)]
            replies = replies[len(first) :]
            missing = []  # groups whose counter is missing
            behind = []  # reads of the member lists that are older than the numbers of their groups
            for group, numbered in zip(waiting, replies, strict=True):
                if numbered is None:
                    missing.append(group)
                else:
                    _assign(group, numbered)
            for group, numbered in zip(waiting, replies, strict=True):
                if numbered is not None and self.members.is_older(group, numbered.members_seq):
                    behind.append(self.members.follow(group, numbered))
            if behind:
                await asyncio.gather(*behind)
            if not missing:
                return answers
            await asyncio.gather(*(self.counters.seed(group.conversation_id) for group in missing))
            waiting, first = missing, self.open_work.reopening(missing)
        raise Unavailable("the counters cannot be seeded")

    async def forget(self, group: BatchGroup, drafts: Iterable[Draft]) -> None:
        """Make the keyspace forget the numbers of these ids: they are to get others."""
        await self._note(group, [(draft.dedupe_field, draft.seq_no, None) for draft in drafts if draft.seq_no])

    async def correct(self, group: BatchGroup, found: Iterable[tuple[Draft, Entry]]) -> bool:
        """Note the rows that these ids have at other numbers, so that the next resend is answered from there at once.

        Returns False where the keyspace no longer has the old number of an id. Then the counter may be lost, and its
        numbers may be given to others.
        """
        notes = [(draft.dedupe_field, draft.seq_no, (row.seq_no, row.sent_ms)) for draft, row in found]
        return await self._note(group, notes) >= len(notes)

    async def _note(self, group: BatchGroup, notes: Sequence[tuple[str, int, tuple[int, int] | None]]) -> int:
        """Change the numbers that the keyspace has of ids. Returns how many it had."""
        if not notes:
            return 0
        call = self.scripts.sent_forget(group.conversation_id, notes, now_ms=self.clock.now_ms())
        return await self.keyspace.one(call)

    def _call(self, group: BatchGroup) -> Call[Numbered | None]:
        others = () if group.is_plain else group.drafts
        return self.scripts.conversation_number(
            group.conversation_id,
            [draft.dedupe_field for draft in group.drafts if not draft.seq_no],
            node_id=self.node_id,
            open_from=self.open_work.open_from(group.conversation_id),
            is_member_change=group.is_member_change,
            has_delete=any(KINDS[draft.kind].uncounts for draft in others),
            has_summary=any(draft.is_summarized for draft in others),
            now_ms=self.clock.now_ms(),
        )


def _assign(group: BatchGroup, numbered: Numbered) -> None:
    seq_no, known = numbered.first_seq, numbered.known
    group.has_known = group.has_known or bool(known)
    position = 0
    for draft in group.drafts:
        if draft.seq_no:
            continue
        if position in known:
            draft.seq_no, draft.sent_ms = known[position]
            draft.is_known = True
        else:
            draft.seq_no, draft.sent_ms = seq_no, numbered.first_at
            seq_no += 1
        position += 1
    group.take_counter(numbered.counter_id)
