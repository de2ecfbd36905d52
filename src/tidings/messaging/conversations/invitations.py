"""Invitations and requests: a user accepts them, or makes them go away.

An invited user has an inbox row (`is_invited`) and no membership: the row shows a name and nothing that was written.
A requested user is a member of a direct conversation that a stranger began (`is_requested`). Accepting is a numbered
member change in both cases, so every node and device agrees where in the log it happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidings.clock import Clock
from tidings.errors import NotFound
from tidings.messaging.access import Access
from tidings.messaging.conversations.rows import Rows
from tidings.messaging.log import entry_at
from tidings.messaging.send.lanes import Sends
from tidings.model import Head, Member, MemberChange, Row
from tidings.pushes import ConversationRemoved
from tidings.routing.router import Router
from tidings.stores.keyspace.call import Keyspace
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.tables.ports import Tables


@dataclass(eq=False, repr=False, kw_only=True)
class Invitations:
    access: Access
    tables: Tables
    sends: Sends
    rows: Rows
    router: Router
    keyspace: Keyspace
    scripts: Scripts
    clock: Clock

    async def invite(self, head: Head, user_ids: Sequence[str]) -> None:
        """Invite people. A user who is invited already stays invited; a member is skipped."""
        if not user_ids:
            return
        now_ms, id_ = self.clock.now_ms(), head.conversation_id
        known = {one.user_id: one for one in await self.tables.conversations.former(id_, user_ids)}  # and how they left
        new = {one: Member(conversation_id=id_, user_id=one, joined_ms=now_ms, left_seq=0) for one in user_ids}
        members = list((new | known).values())
        rows = [
            Row(user_id=one, conversation_id=id_, kind=head.kind, name=head.name, joined_ms=now_ms, is_invited=True)
            for one in user_ids
        ]
        note = await self.rows.mark(user_ids)
        await self.tables.conversations.invite(members, rows)
        await self.rows.show(rows, note)

    async def of_those_who_left(self, conversation_id: str, user_ids: Sequence[str]) -> list[str]:
        """Of these users, those who left by themselves: they come back only by accepting."""
        former = await self.tables.conversations.former(conversation_id, user_ids)
        left = []
        for member in former:
            entry = await entry_at(self.tables.log, conversation_id, member.left_seq) if member.left_seq else None
            if entry is not None and entry.member is not None and entry.member.action == "left":
                left.append(member.user_id)
        return left

    async def accept(self, user_id: str, conversation_id: str) -> None:
        """Accept an invitation or a request. A second accept is no error. Raises NotFound."""
        row = await self._row(user_id, conversation_id)
        if row.is_invited:
            await self.access.load(conversation_id)
            change = MemberChange("added", (user_id,))
            await self.sends.change_members(user_id, conversation_id, change, is_invited=True)
        elif row.is_requested:
            await self.sends.change_members(user_id, conversation_id, MemberChange("accepted", (user_id,)))

    async def decline(self, user_id: str, conversation_id: str) -> bool:
        """Make an invitation or a direct conversation go away. False: it is neither. Raises NotFound.

        A direct conversation comes back with the next message of the other, unless the other is blocked.
        """
        row = await self._row(user_id, conversation_id)
        if row.is_invited:
            await self.tables.conversations.withdraw(conversation_id, user_id)
        elif row.kind == "direct":
            heads = await self.tables.conversations.heads([conversation_id])
            last_seq = heads[conversation_id].last_seq if conversation_id in heads else 0
            await self.tables.inboxes.hide(user_id, conversation_id, up_to_seq=last_seq)
        else:
            return False
        await self.keyspace.one(self.scripts.inbox_leave(user_id, conversation_id))
        self.router.push(user_id, ConversationRemoved(conversation_id))
        return True

    async def _row(self, user_id: str, conversation_id: str) -> Row:
        rows = await self.tables.inboxes.rows(user_id, [conversation_id])
        if conversation_id not in rows:
            raise NotFound("no such conversation")
        return rows[conversation_id]
