"""Read together: the read marks of a moment, of many members, share their round trips and their commit.

A post in a large conversation is read by everybody who is there, within a second. Each mark alone would cost four round
trips. Here those of one conversation are admitted, read, stored and indexed together. A mark that meets anything odd
goes the way of a single mark (unread.py): its member left, another device was first, or there is nothing to move. So
this way changes no rule: each mark has its own marker, version and answer. No mark waits for what another needs alone,
such as the rebuild of a cold index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from tidings.errors import Conflict, StoreError, Unavailable
from tidings.messaging.access import MemberList
from tidings.messaging.unread.ranges import effective_since, next_version, read_up_to
from tidings.messaging.unread.unknown_outcomes import Marker
from tidings.messaging.unread.unread import Unread
from tidings.model import ReadState, Status
from tidings.stores.keyspace.scripts.answers import ReadAnswer


class Reading(msgspec.Struct, eq=False):
    """A mark under way: everything up to a number is read. `outcome` is its answer."""

    user_id: str
    conversation_id: str
    up_to_seq: int
    origin: str | None = None
    marker: Marker | None = None
    status: Status | None = None  # as it is to be stored, then as it is stored
    moves_receipt: bool = False
    outcome: ReadState | Exception | None = None


Tell = Callable[[Sequence[Reading]], None]  # gets each mark once, as soon as its outcome is set


class ReadTogether(Unread):
    async def mark_each(self, readings: Sequence[Reading], tell: Tell = lambda ended: None) -> None:
        """Carry out the marks, and set the outcome of each. A member has one of each conversation at most."""
        groups: dict[str, list[Reading]] = {}
        for one in readings:
            groups.setdefault(one.conversation_id, []).append(one)
        await asyncio.gather(*(self._mark_group(group, tell) for group in groups.values()))

    async def _mark_group(self, group: Sequence[Reading], tell: Tell) -> None:
        cold: dict[Reading, ReadAnswer] = {}
        try:
            if len(group) > 1:
                cold = await self._try_together(group)
        except Exception as error:
            for one in group:
                one.outcome = one.outcome or error
        alone = [one for one in group if one.outcome is None]
        tell([one for one in group if one.outcome is not None])
        await asyncio.gather(*(self._go_alone(one, cold.get(one), tell) for one in alone))

    async def _go_alone(self, one: Reading, answer: ReadAnswer | None, tell: Tell) -> None:
        """Carry out one mark, or only its rest: `answer` is that of the keyspace to a mark that is stored."""
        try:
            if answer is not None:
                one.outcome = await self._show(one, answer)
            else:
                id_, up_to_seq = one.conversation_id, one.up_to_seq
                one.outcome = await self.mark_read(one.user_id, id_, up_to_seq=up_to_seq, origin=one.origin)
        except Exception as error:
            one.outcome = error
        tell([one])

    async def _try_together(self, group: Sequence[Reading]) -> dict[Reading, ReadAnswer]:
        """Leave the outcome of a mark open that must go alone. Returns those that are stored and not yet shown."""
        conversation_id, calls = group[0].conversation_id, []
        for one in group:
            one.marker, call = self.leave(one.user_id, conversation_id)
            calls.append(call)
        try:
            member_list, answers = await self.access.fresh_beside(conversation_id, *calls)
            if answers is None:
                raise Unavailable("the keyspace is down, so nothing was marked")
            await self._move(member_list, group)
            await self._store_all([one for one in group if one.status is not None])
        finally:
            with suppress(StoreError):
                markers = [one.marker for one in group if one.marker is not None]
                await self.keyspace.run([self.remove(one) for one in markers if not one.may_be_written])
        return await self._index([one for one in group if one.status is not None and one.outcome is None])

    async def _move(self, member_list: MemberList | None, group: Sequence[Reading]) -> None:
        """Find the status of each mark that moves."""
        if member_list is None:
            return
        conversation_id, members = member_list.head.conversation_id, member_list.members
        present = [one for one in group if one.user_id in members]
        heads, found = await asyncio.gather(
            self.tables.conversations.heads([conversation_id]),
            self.tables.statuses.of_members(conversation_id, [one.user_id for one in present]),
        )
        if conversation_id not in heads:
            return
        head, now_ms = heads[conversation_id].head, self.clock.now_ms()
        statuses = {status.user_id: status for status in found}
        for one in present:
            status, joined_seq = statuses.get(one.user_id), members[one.user_id].joined_seq
            before = effective_since(status, conversation_id, one.user_id, joined_seq)
            up_to = min(one.up_to_seq, head)
            one.moves_receipt = up_to > before.read_seq
            if up_to > before.cursor_seq or one.moves_receipt:
                one.status = next_version(read_up_to(before, up_to), receipt=up_to, now_ms=now_ms)

    async def _store_all(self, moving: Sequence[Reading]) -> None:
        """Store the statuses. A mark without a status afterwards was not the first, and goes alone."""
        if not moving:
            return
        changes = [(one.user_id, one.conversation_id) for one in moving]
        for one in moving:
            assert one.marker is not None
            one.marker.may_be_written = True
        try:
            with self.unknown_outcomes.of(changes):
                answers = await self.tables.statuses.put_each([one.status for one in moving if one.status is not None])
        except StoreError as error:
            answers = [error] * len(moving)
        for one, answer in zip(moving, answers, strict=True):
            self._settle(one, answer)

    def _settle(self, one: Reading, answer: Status | StoreError) -> None:
        assert one.marker is not None
        if isinstance(answer, Status):
            one.status = answer
            if one.moves_receipt:
                self.read_up_to(one.user_id, one.conversation_id, answer.read_seq)
            return
        is_unknown = isinstance(answer, Unavailable) and answer.is_ambiguous
        one.marker.may_be_written, one.status = is_unknown, None
        if not isinstance(answer, Conflict):
            one.outcome = answer
        if is_unknown:
            self.unknown_outcomes.remember([(one.user_id, one.conversation_id)])

    async def _index(self, stored: Sequence[Reading]) -> dict[Reading, ReadAnswer]:
        """Make the keyspace follow the marks that are in the tables. Returns those that need another look."""
        if not stored:
            return {}
        with self.unknown_outcomes.of([(one.user_id, one.conversation_id) for one in stored], is_committed=True):
            calls = [self.read_call(*_parts(one)) for one in stored]
            answers = await self.keyspace.run(calls)
        return {one: answer for one, answer in zip(stored, answers, strict=True) if not self._show_now(one, answer)}

    def _show_now(self, one: Reading, answer: ReadAnswer) -> bool:
        """Answer a mark without another look. False: that is not enough."""
        state = None if answer.is_cold else self.state_after(one.conversation_id, answer)
        if state is not None:
            one.outcome = self.push_state(state, one.user_id, one.origin)
        return state is not None

    async def _show(self, one: Reading, answer: ReadAnswer) -> ReadState:
        marker, status = _parts(one)
        with self.unknown_outcomes.of([(one.user_id, one.conversation_id)], is_committed=True):
            return await self.show_read(marker, status, answer, one.origin)


def _parts(one: Reading) -> tuple[Marker, Status]:
    assert one.marker is not None and one.status is not None
    return one.marker, one.status
