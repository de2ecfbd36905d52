"""Where the ticks of a conversation stand: the keyspace answers, built from message_status when it is COLD."""

from __future__ import annotations

from collections.abc import Sequence

from tidings.errors import Unavailable
from tidings.messaging.access import Roster
from tidings.stores.calls import Keyspace
from tidings.stores.ports import Statuses
from tidings.stores.scripts_ticks import TickScripts

Raise = tuple[str, str, int, int]  # conversation_id, user_id, delivered_seq, read_seq


class Ticks:
    def __init__(self, keyspace: Keyspace, scripts: TickScripts, statuses: Statuses) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._statuses = statuses

    async def lowest(self, roster: Roster, *, but: str) -> tuple[int, int]:
        """(delivered, read): what all members other than `but` have."""
        if len(roster.members) < 2:
            return 0, 0
        id_, members_seq = roster.head.conversation_id, roster.members_seq
        try:
            found = await self._keyspace.one(self._scripts.ticks_lowest(id_, members_seq=members_seq, but=but))
            if found is None:
                marks = await self.marks(roster)
                rows = [(user_id, *mark) for user_id, mark in marks.items()]
                await self._keyspace.one(self._scripts.ticks_build(id_, members_seq=members_seq, marks=rows))
                return _lowest(marks, but)
            return found
        except Unavailable:
            return _lowest(await self.marks(roster), but)

    async def marks(self, roster: Roster) -> dict[str, tuple[int, int]]:
        """user_id -> (delivered, read) from the tables; who joined later begins at joined_seq."""
        marks = {member.user_id: (member.joined_seq, member.joined_seq) for member in roster.members.values()}
        for status in await self._statuses.of_conversation(roster.head.conversation_id):
            if status.user_id in marks:
                delivered, read = marks[status.user_id]
                marks[status.user_id] = (max(delivered, status.delivered_seq), max(read, status.read_seq))
        return marks

    async def raise_all(self, raises: Sequence[Raise]) -> list[tuple[int, int]]:
        """What each mark was before. The tables hold the new ones already."""
        return await self._keyspace.run(
            [
                self._scripts.ticks_raise(conversation_id, user_id, delivered_seq=delivered, read_seq=read)
                for conversation_id, user_id, delivered, read in raises
            ]
        )


def _lowest(marks: dict[str, tuple[int, int]], but: str) -> tuple[int, int]:
    others = [mark for user_id, mark in marks.items() if user_id != but]
    return min(mark[0] for mark in others), min(mark[1] for mark in others)
