"""Where the ticks of a conversation stand: the keyspace answers, built from message_status when it is COLD.

Marks only go forward. The tables are raised first, so a build never falls behind a receipt. Asked by receipts.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidings.errors import Unavailable
from tidings.messaging.access import Roster
from tidings.stores.calls import Call, Keyspace
from tidings.stores.ports import Statuses
from tidings.stores.scripts_ticks import TickScripts

Raise = tuple[str, str, int, int]  # conversation_id, user_id, delivered_seq, read_seq
Marks = dict[str, tuple[int, int]]  # user_id -> delivered, read


class Moved(NamedTuple):
    """A member's marks as they are now. `before` None: the keyspace had forgotten them."""

    delivered: int
    read: int
    before: tuple[int, int] | None


class Ticks:
    def __init__(self, keyspace: Keyspace, scripts: TickScripts, statuses: Statuses) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._statuses = statuses

    def look(self, roster: Roster, *, but: str) -> Call[tuple[int, int] | None]:
        """`lowest` as a call to be run beside others. None: COLD, ask `lowest`."""
        return self._scripts.ticks_lowest(roster.head.conversation_id, members_seq=roster.members_seq, but=but)

    async def lowest(self, roster: Roster, *, but: str) -> tuple[int, int]:
        """(delivered, read): what all members other than `but` have."""
        if len(roster.members) < 2:
            return 0, 0
        try:
            found = await self._keyspace.one(self.look(roster, but=but))
            return found or _lowest(await self._build(roster), but)
        except Unavailable:
            return _lowest(await self.marks(roster), but)

    async def marks(self, roster: Roster) -> Marks:
        """From the tables; who joined later begins at joined_seq."""
        marks = {member.user_id: (member.joined_seq, member.joined_seq) for member in roster.members.values()}
        for status in await self._statuses.of_conversation(roster.head.conversation_id):
            if status.user_id in marks:
                delivered, read = marks[status.user_id]
                marks[status.user_id] = (max(delivered, status.delivered_seq), max(read, status.read_seq))
        return marks

    async def raise_all(self, raises: Sequence[Raise], rosters: Mapping[str, Roster]) -> list[Moved]:
        """The tables hold these marks already. Each member is in its conversation's roster."""
        before = await self._keyspace.run(
            [
                self._scripts.ticks_raise(conversation_id, user_id, delivered_seq=delivered, read_seq=read)
                for conversation_id, user_id, delivered, read in raises
            ]
        )
        cold = {one[0] for one, marks in zip(raises, before, strict=True) if marks is None}
        built = {id_: await self._build(rosters[id_]) for id_ in cold}
        return [_moved(one, built.get(one[0]), marks) for one, marks in zip(raises, before, strict=True)]

    async def _build(self, roster: Roster) -> Marks:
        marks = await self.marks(roster)
        rows = [(user_id, *mark) for user_id, mark in marks.items()]
        id_, members_seq = roster.head.conversation_id, roster.members_seq
        await self._keyspace.one(self._scripts.ticks_build(id_, members_seq=members_seq, marks=rows))
        return marks


def _moved(one: Raise, built: Marks | None, before: tuple[int, int] | None) -> Moved:
    _, user_id, delivered, read = one
    earlier = built[user_id] if built is not None else before
    assert earlier is not None  # what is not known was built
    return Moved(max(delivered, earlier[0]), max(read, earlier[1]), before)


def _lowest(marks: Marks, but: str) -> tuple[int, int]:
    others = [mark for user_id, mark in marks.items() if user_id != but]
    return min(mark[0] for mark in others), min(mark[1] for mark in others)
