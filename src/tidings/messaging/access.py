"""Who may do what: one `authorize` for every read, write, receipt and change.

A node keeps member lists in memory. What makes that safe is members_seq, the number of the last member change: every
send gets the newest one with its number (send.py), every read compares it here before it answers. A stranger gets the
same answer as for a conversation that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from tidings.bounds import CONVERSATIONS_CACHED_MAX
from tidings.errors import Forbidden, NotFound, Unavailable
from tidings.model import Head, Member, Role
from tidings.stores.calls import Keyspace, plain
from tidings.stores.keys import Keys
from tidings.stores.ports import Conversations

Action = Literal["read", "write", "moderate", "rename", "add", "remove", "role", "delete"]

_ALL: frozenset[Role] = frozenset(("owner", "admin", "member"))
_LEADERS: frozenset[Role] = frozenset(("owner", "admin"))
_OWNER: frozenset[Role] = frozenset(("owner",))

# What each role may do in a group or channel. In a direct conversation there is only reading and writing.
MAY: dict[Action, frozenset[Role]] = {
    "read": _ALL,
    "write": _ALL,
    "moderate": _LEADERS,
    "rename": _LEADERS,
    "add": _LEADERS,
    "remove": _LEADERS,
    "role": _OWNER,
    "delete": _OWNER,
}
_IN_DIRECT: frozenset[Action] = frozenset(("read", "write"))


class Roster(msgspec.Struct, frozen=True):
    """A conversation and its present members, as of members_seq."""

    head: Head
    members: dict[str, Member]
    members_seq: int

    def visible_after(self, user_id: str) -> int:
        """The member sees entries with a higher seq_no than this."""
        joined = self.members[user_id].joined_seq if self.head.history == "joined" else 0
        return max(self.head.floor_seq, joined)


def check(roster: Roster | None, user_id: str, action: Action) -> Member:
    """The rule itself: NotFound for strangers, Forbidden for members who may not."""
    member = roster.members.get(user_id) if roster else None
    if roster is None or member is None:
        raise NotFound("no such conversation")
    if roster.head.kind == "direct" and action not in _IN_DIRECT:
        raise Forbidden("a direct conversation has two equal members and no more")
    if member.role not in MAY[action]:
        raise Forbidden()
    return member


class Access:
    """Member lists of this node, and `authorize` on them."""

    def __init__(self, conversations: Conversations, keyspace: Keyspace, keys: Keys) -> None:
        self._conversations = conversations
        self._keyspace = keyspace
        self._keys = keys
        self._rosters: dict[str, Roster] = {}

    async def authorize(self, user_id: str, conversation_id: str, action: Action) -> Roster:
        roster = await self.fresh(conversation_id)
        check(roster, user_id, action)
        assert roster is not None
        return roster

    async def fresh(self, conversation_id: str) -> Roster | None:
        """The member list as of now. None: no such conversation."""
        cached = self._rosters.get(conversation_id)
        if cached is not None and cached.members_seq >= await self._newest_members_seq(conversation_id):
            return cached
        return await self.load(conversation_id)

    def cached(self, conversation_id: str) -> Roster | None:
        """What this node has in memory: good enough to start with, never to finish."""
        return self._rosters.get(conversation_id)

    async def load(self, conversation_id: str) -> Roster | None:
        """Read from the tables."""
        heads = await self._conversations.heads([conversation_id])
        head = heads.get(conversation_id)
        if head is None:
            self._rosters.pop(conversation_id, None)
            return None
        # The head is read first: a change between the two reads makes the list newer than its number, never older.
        members = await self._conversations.members(conversation_id)
        roster = Roster(head, {member.user_id: member for member in members}, head.members_seq)
        self._keep(conversation_id, roster)
        return roster

    def forget(self, conversation_ids: Iterable[str]) -> None:
        for conversation_id in conversation_ids:
            self._rosters.pop(conversation_id, None)

    async def _newest_members_seq(self, conversation_id: str) -> int:
        """From the keyspace; where that cannot say, from the head row."""
        try:
            key = self._keys.conv(conversation_id)
            epoch, members_seq = await self._keyspace.one(plain(key, b"HMGET", key, b"epoch", b"members_seq"))
            if members_seq is not None and epoch == self._keyspace.epoch(key).encode():
                return int(members_seq)
        except Unavailable:
            pass  # the tables answer as well
        heads = await self._conversations.heads([conversation_id])
        return heads[conversation_id].members_seq if conversation_id in heads else 1 << 62

    def _keep(self, conversation_id: str, roster: Roster) -> None:
        while len(self._rosters) >= CONVERSATIONS_CACHED_MAX:
            del self._rosters[next(iter(self._rosters))]
        self._rosters[conversation_id] = roster
