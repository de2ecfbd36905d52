"""Sight: which members of a conversation may learn something about another one: presence, typing, profile, receipts.

In a group or channel every member may, unless one of the two has blocked the other. A direct conversation shows nothing
before it has a message, so nobody is watched through a conversation that they have never seen. One who was asked by a
stranger (`is_requested`) shows nothing until they accept.
"""

from __future__ import annotations

from tidings.messaging.access import MemberList
from tidings.messaging.people.blocks import NOBODY, Blocks
from tidings.stores.tables.ports import Conversations


class Sight:
    def __init__(self, blocks: Blocks, conversations: Conversations) -> None:
        self._blocks = blocks
        self._conversations = conversations

    async def blind_to(self, subject_id: str, member_list: MemberList) -> frozenset[str]:
        """The members who may learn nothing about the subject. Raises StoreError."""
        members = member_list.members
        subject = members.get(subject_id)  # None: the subject has left, and the others may know that
        if (subject is not None and subject.is_requested) or await self._is_silent(member_list):
            return frozenset(members) - {subject_id}
        await self._blocks.load([subject_id])
        apart = self._blocks.blockers(subject_id) | await self._blocks.blocked_by(subject_id)
        return apart & members.keys() if apart else NOBODY

    async def hidden_from(self, user_id: str, member_list: MemberList) -> frozenset[str]:
        """The members of whom this one may learn nothing. Raises StoreError."""
        members = member_list.members
        if await self._is_silent(member_list):
            return frozenset(members) - {user_id}
        await self._blocks.load([user_id])
        apart = self._blocks.blockers(user_id) | await self._blocks.blocked_by(user_id)
        asked = {one.user_id for one in members.values() if one.is_requested} if _is_direct(member_list) else NOBODY
        return frozenset((apart & members.keys()) | asked) - {user_id}

    async def _is_silent(self, member_list: MemberList) -> bool:
        """Whether it is a direct conversation without a message. The head in memory may be from before the first."""
        head = member_list.head
        if head.kind != "direct" or head.last_seq > 0:
            return False
        heads = await self._conversations.heads([head.conversation_id])
        return head.conversation_id not in heads or heads[head.conversation_id].last_seq == 0


def _is_direct(member_list: MemberList) -> bool:
    return member_list.head.kind == "direct"
