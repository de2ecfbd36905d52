"""Receipt marks: how far each member of a conversation has received and read.

The keyspace answers; a cold answer is built from message_status. Marks only go forward. The tables are raised first, so
a build never falls behind a receipt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tidings.bounds import INDEX_TTL_S
from tidings.errors import Unavailable
from tidings.messaging.access import MemberList
from tidings.model import Member, Status
from tidings.pushes import ReceiptSummary
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.scripts.receipts import ReceiptScripts
from tidings.stores.tables.ports import Statuses
from tidings.stores.tables.values import with_marks_of

Raise = tuple[str, str, int, int]  # conversation_id, user_id, delivered_seq, read_seq
Marks = dict[str, tuple[int, int]]  # user_id -> delivered, read


class Moved(NamedTuple):
    """A member's marks as they are now. `before` None: the keyspace had forgotten them."""

    delivered: int
    read: int
    before: tuple[int, int] | None


class ReceiptMarks:
    def __init__(self, keyspace: Keyspace, scripts: ReceiptScripts, statuses: Statuses) -> None:
        self._keyspace = keyspace
        self._scripts = scripts
        self._statuses = statuses

    def look(self, member_list: MemberList, *, but: str) -> Call[tuple[int, int] | None]:
        """Return `lowest` as a call to run beside others. Its answer None means cold: ask `lowest`."""
        return self._scripts.receipts_lowest(
            member_list.head.conversation_id, members_seq=member_list.members_seq, but=but
        )

    async def lowest(self, member_list: MemberList, *, but: str) -> tuple[int, int]:
        """Return (delivered, read): the marks that all members other than `but` have reached."""
        if len(member_list.members) < 2:
            return 0, 0
        try:
            found = await self._keyspace.one(self.look(member_list, but=but))
            return found or _lowest(await self._build(member_list), but)
        except Unavailable:
            return _lowest(await self.marks(member_list), but)

    async def statuses(self, member_list: MemberList) -> dict[str, Status]:
        """Read the marks of every member from the tables."""
        found = await self._statuses.of_conversation(member_list.head.conversation_id)
        return _since_joining(member_list.members.values(), found)

    async def statuses_of(self, conversation_id: str, members: Sequence[Member]) -> dict[str, Status]:
        """Read the marks of these members alone."""
        found = await self._statuses.of_members(conversation_id, [member.user_id for member in members])
        return _since_joining(members, found)

    async def marks(self, member_list: MemberList) -> Marks:
        found = await self.statuses(member_list)
        return {user_id: (status.delivered_seq, status.read_seq) for user_id, status in found.items()}

    async def raise_all(self, raises: Sequence[Raise], member_lists: Mapping[str, MemberList]) -> list[Moved]:
        """Raise marks that the tables hold already. Each member is in the member list of the conversation."""
        before = await self._keyspace.run(
            [
                self._scripts.receipts_raise(conversation_id, user_id, delivered_seq=delivered, read_seq=read)
                for conversation_id, user_id, delivered, read in raises
            ]
        )
        cold = {one[0] for one, marks in zip(raises, before, strict=True) if marks is None}
        built = {id_: await self._build(member_lists[id_]) for id_ in cold}
        return [_moved(one, built.get(one[0]), marks) for one, marks in zip(raises, before, strict=True)]

    async def raise_many(self, member_list: MemberList, raises: Sequence[Raise]) -> None:
        """Raise marks of members of one conversation. The tables hold them already."""
        keys, id_ = self._scripts.keys, member_list.head.conversation_id
        calls: list[Call[Any]] = []
        for key, marks in (
            (keys.delivered(id_), [(delivered, user_id) for _, user_id, delivered, _ in raises]),
            (keys.readby(id_), [(read, user_id) for _, user_id, _, read in raises if read > 0]),
        ):
            if marks:
                calls.append(plain(key, b"ZADD", key, b"GT", *(part for mark in marks for part in mark)))
                calls.append(plain(key, b"EXPIRE", key, INDEX_TTL_S))
        await self._keyspace.run(calls)

    async def summaries(self, member_list: MemberList, seqs: Mapping[str, int]) -> dict[str, ReceiptSummary]:
        """Return the summary of one message for each sender."""
        id_, members_seq = member_list.head.conversation_id, member_list.members_seq
        ask = self._scripts.receipts_summary
        calls = [ask(id_, members_seq=members_seq, but=sender_id, seq=seq) for sender_id, seq in seqs.items()]
        found = await self._keyspace.run(calls)
        if None in found:
            await self._build(member_list)
            found = await self._keyspace.run(calls)
        return {
            sender_id: ReceiptSummary(id_, seq, one[2], one[3], one[0], one[1])
            for (sender_id, seq), one in zip(seqs.items(), found, strict=True)
            if one is not None  # else the members changed meanwhile, and the next receipt asks again
        }

    async def _build(self, member_list: MemberList) -> Marks:
        marks = await self.marks(member_list)
        rows = [(user_id, *mark) for user_id, mark in marks.items()]
        id_, members_seq = member_list.head.conversation_id, member_list.members_seq
        await self._keyspace.one(self._scripts.receipts_build(id_, members_seq=members_seq, marks=rows))
        return marks


def _since_joining(members: Iterable[Member], found: Iterable[Status]) -> dict[str, Status]:
    """The status of each member. A member begins at joined_seq, at no known time."""
    known = {status.user_id: status for status in found}
    statuses: dict[str, Status] = {}
    for member in members:
        joined = Status(
            conversation_id=member.conversation_id,
            user_id=member.user_id,
            delivered_seq=member.joined_seq,
            read_seq=member.joined_seq,
        )
        status = known.get(member.user_id)
        statuses[member.user_id] = joined if status is None else with_marks_of(status, joined)
    return statuses


def _moved(one: Raise, built: Marks | None, before: tuple[int, int] | None) -> Moved:
    _, user_id, delivered, read = one
    earlier = built[user_id] if built is not None else before
    assert earlier is not None  # marks that were not known have been built
    read = max(read, earlier[1])  # read means delivered, though the keyspace may have lost one of the two marks
    return Moved(max(delivered, earlier[0], read), read, before)


def _lowest(marks: Marks, but: str) -> tuple[int, int]:
    others = [mark for user_id, mark in marks.items() if user_id != but]
    return min(mark[0] for mark in others), min(mark[1] for mark in others)
