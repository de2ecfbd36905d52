"""Bans: a person is removed from a conversation, and cannot come back until the ban ends.

A ban is a record of the conversation. A join may be under way in the moment in which it is stored. So the ban asks for
the members after it was stored, and every way into a conversation asks for bans after the join (banned.py).
"""

from __future__ import annotations

import msgspec

from tidings.clock import Clock
from tidings.errors import BadRequest, Forbidden, NotFound
from tidings.messaging.access import Access, is_leader
from tidings.messaging.banned import BANS, Ban
from tidings.messaging.send.lanes import Sends
from tidings.model import MemberChange
from tidings.stores.tables.records import Put, Records, of_conversation


class Bans:
    def __init__(self, access: Access, records: Records, sends: Sends, clock: Clock) -> None:
        self._access = access
        self._records = records
        self._sends = sends
        self._clock = clock

    async def put(self, user_id: str, conversation_id: str, other_id: str, until_ms: int | None) -> None:
        """Ban a person, and remove them if they are a member. Raises NotFound, Forbidden."""
        member_list = await self._access.authorize(user_id, conversation_id, "remove")
        other = member_list.members.get(other_id)
        if other_id == user_id:
            raise BadRequest("nobody can ban themself")
        if other is not None and is_leader(other) and member_list.members[user_id].role != "owner":
            raise Forbidden("only the owner can ban an admin")
        if other is not None and other.role == "owner":
            raise Forbidden("the owner cannot be removed")
        await self._store(user_id, conversation_id, other_id, until_ms)
        await self._remove(user_id, conversation_id, other_id)

    async def put_for_server(self, conversation_id: str, other_id: str, by: str) -> None:
        """Ban a person in the name of the conversation's owner: a moderator wants it. Raises NotFound."""
        member_list = await self._access.fresh(conversation_id)
        leaders = [one for one in member_list.members.values() if one.role == "owner"] if member_list else []
        if not leaders:
            raise NotFound("no such conversation, or it has no owner")
        await self._store(by, conversation_id, other_id, None)
        await self._remove(leaders[0].user_id, conversation_id, other_id)

    async def end(self, user_id: str, conversation_id: str, other_id: str) -> None:
        """End a ban. Raises NotFound."""
        await self._access.authorize(user_id, conversation_id, "remove")
        found = await self._records.get(of_conversation(conversation_id), BANS, [other_id])
        if other_id not in found:
            raise NotFound("no such ban")
        await self._records.put([Put(of_conversation(conversation_id), BANS, other_id, None)])

    async def _store(self, by: str, conversation_id: str, other_id: str, until_ms: int | None) -> None:
        value = msgspec.json.encode(Ban(by, self._clock.now_ms(), until_ms))
        await self._records.put([Put(of_conversation(conversation_id), BANS, other_id, value)])

    async def _remove(self, user_id: str, conversation_id: str, other_id: str) -> None:
        """Remove the person who is banned now, if they are a member now."""
        member_list = await self._access.fresh(conversation_id)
        if member_list is None or other_id not in member_list.members:
            return
        try:
            await self._sends.change_members(user_id, conversation_id, MemberChange("removed", (other_id,)))
        except NotFound:
            await self._access.authorize(user_id, conversation_id, "read")  # else: they left meanwhile
