"""Stage: store. All entries of a conversation in the batch commit together or not at all, and the log decides.

What can come back, and what it means: the id was stored before (a duplicate: answer with the first number); a slot is
taken by somebody else's entry (the counter was wrong: seed it from the log, number the whole group again in its order,
close what was given up); an edit with a higher number was stored first (number again: the log is the order in which a
message was rewritten); no answer (ask again with the same numbers: what is ours already is recognised, so nothing is
stored twice). An id that the keyspace knows is never acknowledged before its row is seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tidings.bounds import OPEN_SLOT_S, RENUMBER_MAX, STORE_DEADLINE_S
from tidings.clock import Clock
from tidings.errors import IdConflict, NotFound, StoreUnavailable, Throttled, Unavailable
from tidings.messaging.commits import to_group
from tidings.messaging.drafts import BatchGroup, Draft
from tidings.messaging.numbering import Numbering
from tidings.model import Entry
from tidings.stores.ports import Messages, Refused

_PAUSE_S = 0.05  # before the same numbers are tried again


class Storing:
    def __init__(self, messages: Messages, numbering: Numbering, clock: Clock) -> None:
        self._messages = messages
        self._numbering = numbering
        self._clock = clock

    async def store(self, groups: Sequence[BatchGroup], open_from: Callable[[str], int]) -> None:
        """Every draft ends as done or refused. Raises Unavailable when nothing can be asked."""
        for group in groups:
            if any(draft.is_known for draft in group.drafts):
                await self._settle_known(group, open_from)
                await self._renumber_overtaken(group, open_from)
        deadline_s = self._clock.monotonic_s() + STORE_DEADLINE_S
        waiting = [group for group in groups if group.drafts or group.voids]
        while waiting:
            pairs = [to_group(group) for group in waiting]
            try:
                verdicts = await self._messages.append([group for group, _ in pairs])
            except (Unavailable, Throttled) as error:
                if not await self._may_retry(error, deadline_s):
                    _give_up(waiting)
                    return
                for group in waiting:
                    group.is_retried = True
                continue
            again = []
            for group, (sent, positions), refused in zip(waiting, pairs, verdicts, strict=True):
                if refused is None:
                    _all_stored(group, sent.entries, positions)
                elif await self._resolve(group, positions, refused, open_from):
                    again.append(group)
            waiting = again

    async def _settle_known(self, group: BatchGroup, open_from: Callable[[str], int]) -> None:
        """Ids with a number noted before: is the row there?"""
        known = [draft for draft in group.drafts if draft.is_known]
        rows = await asyncio.gather(*(self._row(group.conversation_id, draft.seq_no) for draft in known))
        lost: list[Draft] = []
        taken: set[int] = set()
        old_ms = self._clock.now_ms() - OPEN_SLOT_S * 1000
        for draft, row in zip(known, rows, strict=True):
            if row is not None and (row.sender_id, row.message_id) == (draft.sender_id, draft.message_id):
                group.found(draft, row)
            elif row is not None:
                lost.append(draft)  # the slot was voided, or is another's
                taken.add(draft.seq_no)
            elif draft.sent_ms < old_ms:
                lost.append(draft)  # streams that begin now take what is so old for told: it must not come late
            # No row: whoever had the number did not get to store it. We do, under that number.
        if stored := [draft.entry for draft in group.done if draft.entry is not None]:
            await self._messages.catch_up(group.conversation_id, stored)
        if lost:
            await self._renumber(group, lost[0], frozenset(taken), open_from)

    async def _renumber_overtaken(self, group: BatchGroup, open_from: Callable[[str], int]) -> None:
        """Edits and deletes whose target has an edit with a higher number: whoever reads the log in its order must end
        with what the row says."""
        overtaken = next((draft for draft in group.drafts if draft.is_overtaken), None)
        if overtaken is not None:
            await self._renumber(group, overtaken, frozenset(), open_from)

    async def _renumber(
        self, group: BatchGroup, first: Draft, taken: frozenset[int], open_from: Callable[[str], int]
    ) -> None:
        """Other numbers for it and what came after it, in their order. The old ones are closed in the next commit,
        where they are free."""
        drafts = group.drafts[group.drafts.index(first) :]
        await self._numbering.forget(group, drafts)
        for draft in drafts:
            if draft.seq_no not in taken:
                group.voids.append((draft.seq_no, draft.sent_ms))
            draft.seq_no, draft.is_known = 0, False
        await self._numbering.number([group], open_from)

    async def _resolve(
        self,
        group: BatchGroup,
        positions: Sequence[Draft | None],
        refused: Refused,
        open_from: Callable[[str], int],
    ) -> bool:
        """Take in why a group was not stored. True: there is something left to store."""
        group.renumbered += 1
        if refused.is_gone:
            group.is_gone = True
            group.refuse_all(NotFound("no such conversation"))
            group.voids.clear()
        elif group.renumbered > RENUMBER_MAX:
            group.refuse_all(StoreUnavailable("no free numbers were found"))
            group.voids.clear()
        elif refused.known:
            await self._take_known(group, positions, refused)
        elif refused.taken:
            await self._numbering.seed(group.conversation_id)
            await self._renumber(group, group.drafts[0], refused.taken, open_from)
        elif refused.is_stale:
            await self._read_targets(group)
            await self._renumber_overtaken(group, open_from)
        return bool(group.drafts or group.voids)

    async def _take_known(self, group: BatchGroup, positions: Sequence[Draft | None], refused: Refused) -> None:
        """Stored before. At the very number we have: by an earlier try of ours, or by who had the number first."""
        seq_nos = [known.seq_no for known in refused.known.values()]
        rows = await asyncio.gather(*(self._row(group.conversation_id, seq_no) for seq_no in seq_nos))
        elsewhere: list[tuple[Draft, Entry]] = []
        for position, row in zip(refused.known, rows, strict=True):
            draft = positions[position]
            assert draft is not None
            if row is None:
                continue  # the conversation is being deleted: the next try says so
            if row.seq_no != draft.seq_no:
                elsewhere.append((draft, row))
            elif row.digest == draft.digest:
                group.stored(draft, row)
                draft.is_duplicate = not group.is_retried
            else:
                draft.is_known = True  # the slot is not ours to close
                group.refuse(draft, IdConflict())
        await self._numbering.correct(group, elsewhere)
        for draft, row in elsewhere:
            group.found(draft, row)

    async def _read_targets(self, group: BatchGroup) -> None:
        """An edit's or delete's target changed meanwhile."""
        for draft in [draft for draft in group.drafts if draft.target is not None]:
            assert draft.target is not None
            target = await self._row(group.conversation_id, draft.target.seq_no)
            if target is None or target.is_deleted:
                group.refuse(draft, NotFound("no such message"))
            else:
                draft.target = target

    async def _row(self, conversation_id: str, seq_no: int) -> Entry | None:
        found = await self._messages.page(
            conversation_id, after=seq_no - 1, before=seq_no + 1, limit=1, newest_first=False
        )
        return found[0] if found else None

    async def _may_retry(self, error: Exception, deadline_s: float) -> bool:
        is_unclear = isinstance(error, Throttled) or (isinstance(error, Unavailable) and error.is_ambiguous)
        if not is_unclear or self._clock.monotonic_s() > deadline_s:
            return False
        await asyncio.sleep(_PAUSE_S)
        return True


def _all_stored(group: BatchGroup, entries: Sequence[Entry], positions: Sequence[Draft | None]) -> None:
    for entry, draft in zip(entries, positions, strict=True):
        if draft is not None:
            draft.entry = entry
            group.done.append(draft)
    group.drafts = []
    group.voids = []


def _give_up(groups: Sequence[BatchGroup]) -> None:
    for group in groups:
        group.leave_undecided()
        group.refuse_all(StoreUnavailable())
        group.voids = []
