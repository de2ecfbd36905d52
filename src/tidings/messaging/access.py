"""Who may do what: one `authorize` for every read, write, receipt and change.

A node keeps member lists in memory. What makes that safe is members_seq, the number of the last member change: every
send gets the newest one with its number (send.py), every read compares it here before it answers. A stranger gets the
same answer as for a conversation that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from tidings.bounds import CONVERSATIONS_CACHED_MAX
from tidings.errors import Forbidden, NotFound, Unavailable
from tidings.model import Entry, Head, Member, Role
from tidings.stores.calls import Call, Keyspace, plain
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


class Admitted(NamedTuple):
    """A member, with what the same round trip answered. `beside` None: the keyspace did not answer.

    `top`: the last number handed out, 0 = not known; then the roster's head row was read just now.
    """

    roster: Roster
    top: int
    beside: list[Any] | None


class _Newest(NamedTuple):
    """What the keyspace says of a conversation; members_seq None: it cannot say."""

    members_seq: int | None
    top: int
    beside: list[Any] | None


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
        return (await self.authorize_beside(user_id, conversation_id, action)).roster

    async def authorize_beside(
        self, user_id: str, conversation_id: str, action: Action, *beside: Call[Any]
    ) -> Admitted:
        """The same, with calls of the caller in the same round trip. They must be harmless to a stranger."""
        newest = await self._ask(conversation_id, beside)
        roster = await self._as_of(conversation_id, newest)
        check(roster, user_id, action)
        assert roster is not None
        return Admitted(roster, newest.top, newest.beside)

    async def fresh(self, conversation_id: str) -> Roster | None:
        """The member list as of now. None: no such conversation."""
        return await self._as_of(conversation_id, await self._ask(conversation_id))

    async def visible(self, roster: Roster, user_id: str, entries: list[Entry]) -> tuple[Roster, list[Entry]]:
        """Of entries that were read after the roster, those that the user may see, and the roster as of them.

        Somebody may have left between the two: a change among the entries tells. Raises NotFound."""
        changes = [entry for entry in entries if entry.kind == "member" and entry.seq_no > roster.members_seq]
        if changes:
            newer = await self.load(roster.head.conversation_id)
            check(newer, user_id, "read")
            assert newer is not None
            start = newer.visible_after(user_id)
            return newer, [entry for entry in entries if entry.seq_no > start]
        return roster, entries

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

    async def _ask(self, conversation_id: str, beside: Iterable[Call[Any]] = ()) -> _Newest:
        key = self._keys.conv(conversation_id)
        try:
            numbers = plain(key, b"HMGET", key, b"epoch", b"members_seq", b"seq")
            (epoch, members_seq, seq), *answers = await self._keyspace.run((numbers, *beside))
            if members_seq is None or seq is None or epoch != self._keyspace.epoch(key).encode():
                return _Newest(None, 0, answers)
            return _Newest(int(members_seq), int(seq), answers)
        except Unavailable:
            return _Newest(None, 0, None)  # the tables answer as well

    async def _as_of(self, conversation_id: str, newest: _Newest) -> Roster | None:
        cached = self._rosters.get(conversation_id)
        if cached is None:
            return await self.load(conversation_id)
        if newest.members_seq is not None:
            return cached if cached.members_seq >= newest.members_seq else await self.load(conversation_id)
        heads = await self._conversations.heads([conversation_id])
        head = heads.get(conversation_id)
        if head is None or cached.members_seq < head.members_seq:
            return await self.load(conversation_id)
        return Roster(head, cached.members, cached.members_seq)

    def _keep(self, conversation_id: str, roster: Roster) -> None:
        if conversation_id not in self._rosters and len(self._rosters) >= CONVERSATIONS_CACHED_MAX:
            del self._rosters[next(iter(self._rosters))]
        self._rosters[conversation_id] = roster
