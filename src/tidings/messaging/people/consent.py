"""Consent: who may begin a direct conversation with a user, and who may put the user into a group.

A user's preferences say it: anybody, only people with whom the user shares a group or channel, or nobody. Where a
stranger writes to somebody who wants shared groups, the conversation is a request: it is shown, but neither counted nor
notified, and shows nothing of the user until they accept or answer. Where a user may not be added, they are invited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set

from tidings.bounds import SHARED_ROWS_MAX
from tidings.errors import Forbidden
from tidings.messaging.people.blocks import Blocks
from tidings.model import Row
from tidings.stores.tables.ports import Conversations, Inboxes, People
from tidings.stores.tables.values import Preferences

_TOGETHER = 100  # rows compared in one read


class Consent:
    def __init__(self, people: People, inboxes: Inboxes, conversations: Conversations, blocks: Blocks) -> None:
        self._people = people
        self._inboxes = inboxes
        self._conversations = conversations
        self._blocks = blocks

    async def preferences(self, user_id: str) -> Preferences:
        return (await self._people.preferences([user_id])).get(user_id, Preferences())

    async def put_preferences(self, user_id: str, preferences: Preferences) -> None:
        await self._people.put_preferences(user_id, preferences)

    async def is_request(self, user_id: str, other_id: str) -> bool:
        """Whether a direct conversation with the other begins as a request. Raises Forbidden where none may begin."""
        who = (await self.preferences(other_id)).who_may_write
        if who == "nobody":
            raise Forbidden("this person takes no messages from you")
        return who == "shared" and not await self._known(user_id, {other_id})

    async def split(self, user_id: str, others: Sequence[str]) -> tuple[list[str], list[str]]:
        """Of the users named, those who may be added and those who must be invited.

        One who has blocked the asker is neither: the asker sees the same as for an invitation.
        """
        await self._blocks.load([user_id])
        others = [other_id for other_id in others if other_id not in self._blocks.blockers(user_id)]
        chosen = await self._people.preferences(others)
        rules = {other_id: chosen.get(other_id, Preferences()).who_may_add for other_id in others}
        free = {other_id for other_id, rule in rules.items() if rule == "anybody"}
        free |= await self._known(user_id, {other_id for other_id, rule in rules.items() if rule == "shared"})
        return [one for one in others if one in free], [one for one in others if one not in free]

    async def _known(self, user_id: str, others: Set[str]) -> Set[str]:
        """Those who are members of a group or channel of the user, among the user's first SHARED_ROWS_MAX rows."""
        left, after_id, seen = frozenset(others), "", 0
        while left and seen < SHARED_ROWS_MAX:
            page = await self._inboxes.scan(user_id, after_id=after_id, limit=_TOGETHER)
            if not page:
                break
            left -= await self._in_any([row.conversation_id for row in page if _is_shared(row)], left)
            after_id, seen = page[-1].conversation_id, seen + len(page)
        return others - left

    async def _in_any(self, ids: Sequence[str], user_ids: Set[str]) -> Set[str]:
        """The members of these conversations among the users: a read for each conversation, or each user if less."""
        if len(user_ids) > len(ids):
            found = await asyncio.gather(*(self._conversations.named(id_, user_ids) for id_ in ids))
            return {member.user_id for members in found for member in members}
        people = list(user_ids)
        rows = await asyncio.gather(*(self._inboxes.rows(one, ids) for one in people))
        return {one for one, theirs in zip(people, rows, strict=True) if any(map(_is_shared, theirs.values()))}


def _is_shared(row: Row) -> bool:
    return row.kind != "direct" and not row.is_invited
