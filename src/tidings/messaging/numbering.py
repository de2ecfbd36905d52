"""Stage: number. The keyspace hands out numbers; the log has the last word on them.

A counter that is missing, or of another epoch, is seeded from the log first: raised, never lowered. The number comes
with members_seq, so a node whose member list is older reads it again before anything is stored: who was removed at
number n can neither send nor receive above n, whichever node handles it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidings.bounds import CONVERSATIONS_CACHED_MAX, MEMBERS_WAIT_S, OPEN_SLOT_S, RENUMBER_MAX
from tidings.clock import Clock
from tidings.errors import NotFound, Problem, StoreUnavailable, Unavailable
from tidings.messaging.access import Access, Roster, check
from tidings.messaging.commits import check_change
from tidings.messaging.drafts import BatchGroup, Draft
from tidings.model import Entry
from tidings.stores.calls import Call, Keyspace
from tidings.stores.ports import Group, Messages
from tidings.stores.scripts import Numbered, Scripts

_MEMBERS_POLL_S = 0.05  # how often a member change under way on another node is looked for


class Numbering:
    def __init__(
        self,
        keyspace: Keyspace,
        scripts: Scripts,
        messages: Messages,
        access: Access,
        clock: Clock,
        node_id: str,
        doubt: Callable[[str, int], None],
        again: Callable[[Sequence[BatchGroup]], Sequence[Call[Any]]],
    ) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._messages = messages
        self._access = access
        self._clock = clock
        self._node_id = node_id
        self._doubt = doubt  # from this number on the log may have entries that no lane has routed
        self._again = again  # what goes with the numbers of a counter that was missing: more may be lost than that
        self._vain: dict[str, int] = {}  # conversation -> a members_seq that was handed out and never used

    async def number(
        self, groups: Sequence[BatchGroup], open_from: Callable[[str], int], first: Sequence[Call[Any]] = ()
    ) -> list[Any]:
        """Every draft without a number gets one; `first` goes ahead in the same round trip, and its replies are the
        first of those answered. Raises Unavailable."""
        waiting = list(groups)
        answers: list[Any] = []
        for _ in range(RENUMBER_MAX):
            calls = [*first, *(self._call(group, open_from) for group in waiting)]
            replies: list[Any] = await self._keyspace.run(calls)
            answers += replies[: len(first)]
            replies = replies[len(first) :]
            cold = []
            for group, numbered in zip(waiting, replies, strict=True):
                if numbered is None:
                    cold.append(group)
                else:
                    _assign(group, numbered)
            for group, numbered in zip(waiting, replies, strict=True):
                if numbered is not None and self._is_older(group, numbered.members_seq):
                    await self._check_members(group, numbered)
            if not cold:
                return answers
            await asyncio.gather(*(self.seed(group.conversation_id) for group in cold))
            waiting, first = cold, self._again(cold)
        raise Unavailable("the counters cannot be seeded")

    async def seed(self, conversation_id: str) -> None:
        """Raise the counter to what the log says."""
        top = await self._messages.top(conversation_id)
        await self._keyspace.one(
            self._scripts.conversation_seed(
                conversation_id, seq=top.seq_no, at=top.sent_ms, members_seq=top.members_seq
            )
        )

    async def forget(self, group: BatchGroup, drafts: Iterable[Draft]) -> None:
        """Their ids are to get other numbers."""
        await self._renote(group, [(draft.note, draft.seq_no, None) for draft in drafts if draft.seq_no])

    async def correct(self, group: BatchGroup, found: Iterable[tuple[Draft, Entry]]) -> None:
        """Their ids have rows at other numbers: a resend shall be answered from there at once."""
        await self._renote(group, [(draft.note, draft.seq_no, (row.seq_no, row.sent_ms)) for draft, row in found])

    async def _renote(self, group: BatchGroup, notes: list[tuple[str, int, tuple[int, int] | None]]) -> None:
        if notes:
            call = self._scripts.sent_forget(group.conversation_id, notes, now_ms=self._clock.now_ms())
            await self._keyspace.one(call)

    def _call(self, group: BatchGroup, open_from: Callable[[str], int]) -> Call[Numbered | None]:
        return self._scripts.conversation_number(
            group.conversation_id,
            [draft.note for draft in group.drafts if not draft.seq_no],
            node_id=self._node_id,
            open_from=open_from(group.conversation_id),
            is_member_change=group.is_member_change,
            has_delete=any(draft.kind == "delete" for draft in group.drafts),
            now_ms=self._clock.now_ms(),
        )

    def _is_older(self, group: BatchGroup, members_seq: int) -> bool:
        roster = group.roster
        if roster is None or roster.members_seq >= members_seq:
            return False
        return self._vain.get(group.conversation_id) != members_seq

    async def _check_members(self, group: BatchGroup, numbered: Numbered) -> None:
        """A list older than the numbers is read again, and the senders are looked up in it."""
        try:
            roster = await self._members_as_of(group.conversation_id, numbered)
        except Problem as problem:
            group.leave_undecided()
            group.refuse_all(problem)
            return
        if roster is None:
            group.refuse_all(NotFound("no such conversation"))
            group.voids.clear()  # there is no log to close them in
            return
        group.roster = roster
        for draft in list(group.drafts):
            try:
                check(group.roster, draft.sender_id, "write")
            except Problem as problem:
                group.refuse(draft, problem)
        if group.is_member_change:
            check_change(group)

    async def _members_as_of(self, conversation_id: str, numbered: Numbered) -> Roster | None:
        """The list with the change at members_seq in it, or with that number closed by something else."""
        members_seq = numbered.members_seq
        began_s = self._clock.monotonic_s()
        while (waited_s := self._clock.monotonic_s() - began_s) < MEMBERS_WAIT_S:
            roster = await self._access.load(conversation_id)
            if roster is None or roster.members_seq >= members_seq:
                return roster
            if await self._is_decided(conversation_id, members_seq):
                # Either a void, or a change that was committed after we read: once more tells.
                return await self._settled(conversation_id, members_seq)
            if waited_s > OPEN_SLOT_S:
                # Whoever was to change the members is gone, and no reader closes a slot that nothing stands above.
                await self._close(conversation_id, numbered)
            else:
                await asyncio.sleep(_MEMBERS_POLL_S)
        raise StoreUnavailable("a member change is under way")

    async def _settled(self, conversation_id: str, members_seq: int) -> Roster | None:
        roster = await self._access.load(conversation_id)
        if roster is not None and roster.members_seq < members_seq:
            if len(self._vain) >= CONVERSATIONS_CACHED_MAX:
                self._vain.clear()  # only costs reading the list again
            self._vain[conversation_id] = members_seq
            self._doubt(conversation_id, members_seq)  # the void that stands there, and whatever came with it
        return roster

    async def _close(self, conversation_id: str, numbered: Numbered) -> None:
        # Times grow by at least one with each number, so this lies between the entries on both sides.
        sent_ms = numbered.first_at - (numbered.first_seq - numbered.members_seq)
        void = Entry(conversation_id=conversation_id, seq_no=numbered.members_seq, kind="void", sent_ms=sent_ms)
        await self._messages.append([Group(conversation_id=conversation_id, entries=(void,))])

    async def _is_decided(self, conversation_id: str, seq_no: int) -> bool:
        found = await self._messages.page(
            conversation_id, after=seq_no - 1, before=seq_no + 1, limit=1, newest_first=False
        )
        return bool(found)


def _assign(group: BatchGroup, numbered: Numbered) -> None:
    seq_no, sent_ms, known = numbered.first_seq, numbered.first_at, numbered.known
    position = 0
    for draft in group.drafts:
        if draft.seq_no:
            continue
        if position in known:
            draft.seq_no, draft.sent_ms = known[position]
            draft.is_known = True
        else:
            draft.seq_no, draft.sent_ms = seq_no, sent_ms
            seq_no, sent_ms = seq_no + 1, sent_ms + 1
        position += 1
