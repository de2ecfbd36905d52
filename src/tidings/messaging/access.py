"""Access: one `authorize` for every read, write, receipt and change.

A node keeps member lists in memory. members_seq, the number of the last member change, makes that safe: every send gets
the newest one with its number (send/members.py), and every read compares it here before it answers. A stranger gets the
same answer as for a conversation that does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from tidings.bounds import CONVERSATIONS_CACHED_MAX, MEMBERS_CACHED_MAX
from tidings.clock import Clock
from tidings.errors import Forbidden, NotFound, Unavailable
from tidings.messaging.banned import Banned
from tidings.messaging.log import entry_at, is_decided
from tidings.messaging.slow_mode import SlowMode
from tidings.model import KINDS, NO_RULES, Entry, Head, Member, MemberAction, Role, Rules, void_at
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.tables.ports import Conversations, Messages
from tidings.stores.tables.records import Record, Records, of_conversation
from tidings.tasks import Listeners, Recent, Weighed

Action = Literal["read", "write", "moderate", "rename", "add", "remove", "role", "delete"]

_ALL: frozenset[Role] = frozenset(("owner", "admin", "member"))
_LEADERS: frozenset[Role] = frozenset(("owner", "admin"))
_OWNER: frozenset[Role] = frozenset(("owner",))

# The rights of each role in a group or channel. In a direct conversation there is only reading and writing.
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
RULES = "rules"  # the collection and the name of the record that holds the rules of a conversation
_LIST_WEIGHT = 3  # of a list beside its members, in the memory that a member takes
_LONG_LIST = 200  # members: a longer list is not read again as a whole when some of them change
_CHANGES_MAX = 300  # entries that are read to bring a long list up to date; beyond, the whole list costs no more


class MemberList(msgspec.Struct, frozen=True):
    """A conversation and its present members, as of members_seq."""

    head: Head
    members: dict[str, Member]
    members_seq: int
    rules: Rules = NO_RULES

    def visible_after(self, user_id: str) -> int:
        """The member sees entries with a higher seq_no than this."""
        joined = self.members[user_id].joined_seq if self.head.history == "joined" else 0
        return max(self.head.floor_seq, joined)

    def is_unanswered(self, user_id: str) -> bool:
        """Whether the other side of a direct conversation has not accepted it: it shows this member no receipts."""
        others = (one for one in self.members.values() if one.user_id != user_id)
        return self.head.kind == "direct" and any(one.is_requested for one in others)


def mask(entry: Entry, visible_after: int) -> Entry:
    """The entry as a member sees it who sees nothing up to this number: an edit of an older message has no content."""
    if entry.target_seq is None or entry.target_seq > visible_after:
        return entry
    return msgspec.structs.replace(entry, content=None)


def seen_by(user_id: str, entry: Entry, now_ms: int = 0) -> Entry:
    """The entry as this user sees it now.

    A message that is shown to its sender only is a void to everybody else. A message whose time is over is deleted,
    though the server may take two seconds to store that.
    """
    content = entry.content
    if content is None:
        return entry
    if content.only_sender and entry.sender_id != user_id:
        return void_at(entry.conversation_id, entry.seq_no, entry.sent_ms)
    is_over = content.ttl_s is not None and (entry.expires_ms or now_ms + 1) <= now_ms
    return msgspec.structs.replace(entry, content=None, is_deleted=True) if is_over else entry


class Admitted(NamedTuple):
    """A member, with what the same round trip answered. `beside` None: the keyspace did not answer.

    `top`: the last number handed out, 0 = not known; then the member_list's head row was read just now.
    `has_summaries`: whether a message may have reactions or be pinned; None = not known.
    """

    member_list: MemberList
    top: int
    beside: list[Any] | None
    has_summaries: bool | None = None


class _Newest(NamedTuple):
    """The keyspace's answer about a conversation; members_seq None: it cannot say."""

    members_seq: int | None
    top: int
    beside: list[Any] | None
    has_summaries: bool | None = None


def check(member_list: MemberList | None, user_id: str, action: Action) -> Member:
    """The rule itself: NotFound for strangers, Forbidden for members who may not."""
    member = member_list.members.get(user_id) if member_list else None
    if member_list is None or member is None:
        raise NotFound("no such conversation")
    if member_list.head.kind == "direct" and action not in _IN_DIRECT:
        raise Forbidden("a direct conversation has two equal members and no more")
    if member.role not in MAY[action]:
        raise Forbidden()
    if action == "write" and member_list.rules != NO_RULES:
        _check_rules(member_list.rules, member)
    return member


def _check_rules(rules: Rules, member: Member) -> None:
    if rules.frozen:
        raise Forbidden("the conversation is frozen")
    if rules.post == "admins" and not is_leader(member):
        raise Forbidden("only admins may write here")


def is_leader(member: Member) -> bool:
    return member.role in _LEADERS


def rules_of(found: Mapping[str, Record]) -> Rules:
    """The rules in the record of a conversation. Without a record it has none."""
    return msgspec.json.decode(found[RULES].value, type=Rules) if RULES in found else NO_RULES


def loses_last_owner(member_list: MemberList, user_ids: Iterable[str], action: MemberAction) -> bool:
    """Say whether a change takes the last owner from a conversation in which somebody is left."""
    changed = frozenset(user_ids)
    owners = {member.user_id for member in member_list.members.values() if member.role == "owner"}
    if action == "added" or not owners or not owners <= changed:
        return False
    return action == "role" or len(member_list.members) > len(changed)


class Access:
    """Member lists of this node, and `authorize` on them. `list_replaced`: (old, new) a list is newer than before."""

    def __init__(
        self,
        conversations: Conversations,
        messages: Messages,
        records: Records,
        keyspace: Keyspace,
        keys: Keys,
        clock: Clock,
        list_replaced: Listeners[[MemberList, MemberList]],
    ) -> None:
        self._list_replaced = list_replaced
        self._conversations = conversations
        self._records = records
        self.banned = Banned(records, clock)
        self.slow = SlowMode(keyspace, keys)
        self._messages = messages
        self._clock = clock
        self._keyspace = keyspace
        self._keys = keys
        self._member_lists = Weighed[str, MemberList](MEMBERS_CACHED_MAX)
        # conversation -> a members_seq that was handed out and never used, and that of the newest list below it; if
        # forgotten, the list is read once more
        self._unused = Recent[str, tuple[int, int]](CONVERSATIONS_CACHED_MAX)

    async def authorize(self, user_id: str, conversation_id: str, action: Action) -> MemberList:
        return (await self.authorize_beside(user_id, conversation_id, action)).member_list

    async def authorize_beside(
        self, user_id: str, conversation_id: str, action: Action, *beside: Call[Any]
    ) -> Admitted:
        """The same, with calls of the caller in the same round trip. They must be harmless to a stranger."""
        newest = await self._ask(conversation_id, beside)
        member_list, is_read = await self._as_of(conversation_id, newest)
        if not is_read and (member_list is None or user_id not in member_list.members):
            # A stranger is refused after the same reads as for a conversation that does not exist, in the same time.
            member_list = (await self.read([conversation_id])).get(conversation_id)
        check(member_list, user_id, action)
        assert member_list is not None
        return Admitted(member_list, newest.top, newest.beside, newest.has_summaries)

    async def fresh(self, conversation_id: str) -> MemberList | None:
        """The member list as of now. None: no such conversation."""
        return (await self.fresh_beside(conversation_id))[0]

    async def fresh_beside(
        self, conversation_id: str, *beside: Call[Any]
    ) -> tuple[MemberList | None, list[Any] | None]:
        """The same, and what the keyspace answered to calls beside. None: it did not answer."""
        newest = await self._ask(conversation_id, beside)
        return (await self._as_of(conversation_id, newest))[0], newest.beside

    async def visible(
        self, member_list: MemberList, user_id: str, entries: list[Entry]
    ) -> tuple[MemberList, list[Entry]]:
        """Of entries that were read after the member list, those that the user may see, and the list as of them.

        Somebody may have left between the two; then a member change is among the entries. Raises NotFound."""
        changes = [entry for entry in entries if entry.changes_members and entry.seq_no > member_list.members_seq]
        if changes:
            newer = await self.load(member_list.head.conversation_id)
            check(newer, user_id, "read")
            assert newer is not None
            member_list = newer
            entries = [entry for entry in entries if entry.seq_no > newer.visible_after(user_id)]
        if (start := member_list.visible_after(user_id)) > 0:
            entries = [mask(entry, start) for entry in entries]
        contents = [entry.content for entry in entries if entry.content is not None]
        if [one for one in contents if one.only_sender or one.ttl_s is not None]:  # few pages have such a one
            now_ms = self._clock.now_ms()
            entries = [await self._without_end(seen_by(user_id, entry, now_ms), now_ms) for entry in entries]
        return member_list, entries

    async def _without_end(self, entry: Entry, now_ms: int) -> Entry:
        """An edit has no content any more when the time of its message is over."""
        is_edit_with_end = KINDS[entry.kind].rewrites and entry.content is not None and entry.content.ttl_s is not None
        if not is_edit_with_end or entry.target_seq is None:
            return entry
        target = await entry_at(self._messages, entry.conversation_id, entry.target_seq)
        is_there = target is not None and not seen_by("", target, now_ms).is_deleted
        return entry if is_there else msgspec.structs.replace(entry, content=None)

    def cached(self, conversation_id: str) -> MemberList | None:
        """The list that this node has in memory: good enough to start with, never to finish."""
        return self._member_lists.get(conversation_id)

    async def load(self, conversation_id: str) -> MemberList | None:
        """Read from the tables."""
        heads = await self._conversations.heads([conversation_id])
        head = heads.get(conversation_id)
        if head is None:
            self._member_lists.pop(conversation_id)
            return None
        return await self._load_members(head)

    async def read(self, conversation_ids: Sequence[str]) -> dict[str, MemberList]:
        """The lists of several conversations as the tables have them now; those that do not exist are left out.

        One read serves all heads. Members are read where this node has no list, or an older one.
        """
        heads = await self._conversations.heads(conversation_ids)
        self.forget(id_ for id_ in conversation_ids if id_ not in heads)
        return dict(zip(heads, await asyncio.gather(*map(self._under, heads.values())), strict=True))

    async def as_of(self, conversation_id: str, members_seq: int) -> tuple[bool, MemberList | None]:
        """Read a list that may lack the change at members_seq: whether that change is decided, and the list.

        Without an entry at that number the change is under way, and may be committed at any moment. So may be one below
        that it waited for.
        """
        member_list = await self.load(conversation_id)
        if member_list is None or not self.is_older(member_list, members_seq):
            return True, member_list
        above = max(member_list.members_seq, member_list.head.floor_seq)
        if not await is_decided(self._messages, conversation_id, members_seq, above):
            return False, member_list
        # Either a void, or a change that was committed after we read the list: one more read decides.
        member_list = await self.load(conversation_id)
        if member_list is not None and member_list.members_seq < members_seq:
            self._unused.put(conversation_id, (members_seq, member_list.members_seq))
        return True, member_list

    def is_older(self, member_list: MemberList, members_seq: int) -> bool:
        """Say whether the list may lack the change at members_seq."""
        if member_list.members_seq >= members_seq:
            return False
        unused, below = self._unused.get(member_list.head.conversation_id, (0, 0))
        return unused != members_seq or member_list.members_seq < below

    def count_large(self) -> int:
        """How many large conversations this node has in memory."""
        return sum(one.head.large_ms > 0 for one in self._member_lists.values())

    def forget(self, conversation_ids: Iterable[str]) -> None:
        for conversation_id in conversation_ids:
            self._member_lists.pop(conversation_id)

    async def _under(self, head: Head) -> MemberList:
        """The list under a head that was read just now."""
        cached = self._member_lists.get(head.conversation_id)
        if cached is None or cached.members_seq < head.members_seq:
            return await self._load_members(head)
        return MemberList(head, cached.members, cached.members_seq, cached.rules)

    async def _load_members(self, head: Head) -> MemberList:
        # The head is read first: a change between the two reads makes the list newer than its number, never older.
        by_id, found = await asyncio.gather(
            self._members(head), self._records.get(of_conversation(head.conversation_id), RULES, [RULES])
        )
        member_list = MemberList(head, by_id, head.members_seq, rules_of(found))
        known = self._member_lists.get(head.conversation_id)
        is_overtaken = known is not None and known.members_seq > member_list.members_seq
        if known is not None and is_overtaken and known.head.created_ms == head.created_ms:
            return known  # a load that began later was faster
        self._member_lists.put(head.conversation_id, member_list, len(by_id) + _LIST_WEIGHT)
        if known is not None and not is_overtaken:
            self._list_replaced(known, member_list)
        return member_list

    async def _members(self, head: Head) -> dict[str, Member]:
        """The members under this head. Of a long list that this node has, only those who changed are read."""
        known = self._member_lists.get(head.conversation_id)
        changed = await self._changed(known, head) if known is not None else None
        if known is None or changed is None:
            members = await self._conversations.members(head.conversation_id)
            return {member.user_id: member for member in members}
        found = await self._conversations.named(head.conversation_id, changed)
        kept = known.members.copy()
        for user_id in changed:
            kept.pop(user_id, None)
        return kept | {member.user_id: member for member in found}

    async def _changed(self, known: MemberList, head: Head) -> set[str] | None:
        """The users whom the member changes above a list name. None: the whole list must be read.

        Every change of members is an entry, and the entry names its users."""
        after, up_to = known.members_seq, head.members_seq
        is_same = known.head.created_ms == head.created_ms
        if len(known.members) < _LONG_LIST or not is_same or not 0 <= up_to - after <= _CHANGES_MAX:
            return None
        entries = await self._messages.page(
            head.conversation_id, after=after, before=up_to + 1, limit=_CHANGES_MAX, newest_first=False
        )
        if len(entries) < up_to - after:
            return None  # an entry is missing: it was removed, or it is not there yet
        return {user_id for entry in entries if entry.member is not None for user_id in entry.member.user_ids}

    async def _ask(self, conversation_id: str, beside: Iterable[Call[Any]] = ()) -> _Newest:
        key = self._keys.conv(conversation_id)
        try:
            numbers = plain(key, b"HMGET", key, b"epoch", b"members_seq", b"seq", b"summaries")
            (epoch, members_seq, seq, summaries), *answers = await self._keyspace.run((numbers, *beside))
            if members_seq is None or seq is None or epoch != self._keyspace.epoch(key).encode():
                return _Newest(None, 0, answers)
            return _Newest(int(members_seq), int(seq), answers, None if summaries is None else summaries == b"1")
        except Unavailable:
            return _Newest(None, 0, None)  # the tables answer as well

    async def _as_of(self, conversation_id: str, newest: _Newest) -> tuple[MemberList | None, bool]:
        """The list, and whether its head was read for it just now."""
        cached = self._member_lists.get(conversation_id)
        if cached is None or newest.members_seq is None:
            return (await self.read([conversation_id])).get(conversation_id), True
        if not self.is_older(cached, newest.members_seq):
            return cached, False
        return (await self.as_of(conversation_id, newest.members_seq))[1], True
