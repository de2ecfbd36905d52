"""Consent: who may begin a direct conversation with a user, and who may put the user into a group.

A user's preferences say it: anybody, only people with whom the user shares a group or channel, or nobody. Where a
stranger writes to somebody who wants shared groups, the conversation is a request: it is shown, but neither counted nor
notified, and shows nothing of the user until they accept or answer. Where a user may not be added, they are invited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidings.bounds import SHARED_ROWS_MAX
from tidings.errors import Forbidden
from tidings.messaging.people.blocks import Blocks
from tidings.stores.tables.ports import Inboxes, People
from tidings.stores.tables.values import Preferences, WhoMay

_TOGETHER = 100  # rows compared in one read


class Consent:
    def __init__(self, people: People, inboxes: Inboxes, blocks: Blocks) -> None:
        self._people = people
        self._inboxes = inboxes
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
        return not await self._is_allowed(who, user_id, other_id)

    async def split(self, user_id: str, others: Sequence[str]) -> tuple[list[str], list[str]]:
        """Of the users named, those who may be added and those who must be invited.

        One who has blocked the asker is neither: the asker sees the same as for an invitation.
        """
        await self._blocks.load([user_id])
        others = [other_id for other_id in others if other_id not in self._blocks.blockers(user_id)]
        chosen = await self._people.preferences(others)
        rules = [chosen[other_id].who_may_add if other_id in chosen else "anybody" for other_id in others]
        pairs = zip(rules, others, strict=True)
        allowed = await asyncio.gather(*(self._is_allowed(rule, user_id, other_id) for rule, other_id in pairs))
        added = [other_id for other_id, is_allowed in zip(others, allowed, strict=True) if is_allowed]
        return added, [other_id for other_id in others if other_id not in set(added)]

    async def _is_allowed(self, who: WhoMay, user_id: str, other_id: str) -> bool:
        return who == "anybody" or (who == "shared" and await self._share(user_id, other_id))

    async def _share(self, user_id: str, other_id: str) -> bool:
        """Whether both are members of one group or channel, among the first SHARED_ROWS_MAX rows of the asker."""
        after_id, seen = "", 0
        while seen < SHARED_ROWS_MAX and (
            page := await self._inboxes.scan(user_id, after_id=after_id, limit=_TOGETHER)
        ):
            ids = [row.conversation_id for row in page if row.kind != "direct" and not row.is_invited]
            theirs = await self._inboxes.rows(other_id, ids) if ids else {}
            if any(not row.is_invited for row in theirs.values()):
                return True
            after_id, seen = page[-1].conversation_id, seen + len(page)
        return False
