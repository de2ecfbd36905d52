"""Stage: number. The keyspace hands out numbers; the log has the last word on them.

A counter that is missing, or of another epoch, is seeded from the log first: raised, never lowered. The number comes
with members_seq, so a node whose member list is older reads it again before anything is stored: who was removed at
number n can neither send nor receive above n, whichever node handles it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tidings.bounds import MEMBERS_WAIT_S, RENUMBER_MAX
from tidings.clock import Clock
from tidings.errors import Problem, StoreUnavailable, Unavailable
from tidings.messaging.access import Access, Roster, check
from tidings.messaging.drafts import BatchGroup, Draft
from tidings.stores.calls import Call, Keyspace
from tidings.stores.ports import Messages
from tidings.stores.scripts import Numbered, Scripts

_MEMBERS_POLL_S = 0.05  # how often a member change under way on another node is looked for


class Numbering:
    def __init__(
        self, keyspace: Keyspace, scripts: Scripts, messages: Messages, access: Access, clock: Clock, node_id: str
    ) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._messages = messages
        self._access = access
        self._clock = clock
        self._node_id = node_id

    async def number(self, groups: Sequence[BatchGroup], open_from: Callable[[str], int]) -> None:
        """Every draft without a number gets one. Raises Unavailable."""
        waiting = list(groups)
        for _ in range(RENUMBER_MAX):
            replies = await self._keyspace.run([self._call(group, open_from) for group in waiting])
            cold = []
            for group, numbered in zip(waiting, replies, strict=True):
                if numbered is None:
                    cold.append(group)
                else:
                    _assign(group, numbered)
                    await self._check_members(group, numbered.members_seq)
            if not cold:
                return
            await asyncio.gather(*(self.seed(group.conversation_id) for group in cold))
            waiting = cold
        raise Unavailable("the counters cannot be seeded")

    async def seed(self, conversation_id: str) -> None:
        """Raise the counter to what the log says."""
        top = await self._messages.top(conversation_id)
        await self._keyspace.one(
            self._scripts.conversation_seed(
                conversation_id, seq=top.seq_no, at=top.sent_ms, members_seq=top.members_seq
            )
        )

    async def forget(self, group: BatchGroup, drafts: Sequence[Draft]) -> None:
        """Their ids are to get other numbers."""
        notes = [(draft.note, draft.seq_no) for draft in drafts]
        now_ms = self._clock.now_ms()
        await self._keyspace.one(self._scripts.sent_forget(group.conversation_id, notes, now_ms=now_ms))

    def _call(self, group: BatchGroup, open_from: Callable[[str], int]) -> Call[Numbered | None]:
        return self._scripts.conversation_number(
            group.conversation_id,
            [draft.note for draft in group.drafts if not draft.seq_no],
            node_id=self._node_id,
            open_from=open_from(group.conversation_id),
            is_member_change=group.is_member_change,
            now_ms=self._clock.now_ms(),
        )

    async def _check_members(self, group: BatchGroup, members_seq: int) -> None:
        roster = group.roster
        if roster is None or roster.members_seq >= members_seq:
            return
        try:
            group.roster = await self._members_as_of(group.conversation_id, members_seq)
        except Problem as problem:
            group.refuse_all(problem)
        for draft in list(group.drafts):
            try:
                check(group.roster, draft.sender_id, "write")
            except Problem as problem:
                group.refuse(draft, problem)

    async def _members_as_of(self, conversation_id: str, members_seq: int) -> Roster | None:
        """The list with the change at members_seq in it, or with that number closed by something else."""
        deadline_s = self._clock.monotonic_s() + MEMBERS_WAIT_S
        while self._clock.monotonic_s() < deadline_s:
            roster = await self._access.load(conversation_id)
            if roster is None or roster.members_seq >= members_seq:
                return roster
            if await self._is_decided(conversation_id, members_seq):
                # Either a void, or a change that was committed after we read: once more tells.
                return await self._access.load(conversation_id)
            await asyncio.sleep(_MEMBERS_POLL_S)
        raise StoreUnavailable("a member change is under way")

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
