"""Directory: creates, reads, renames and deletes conversations, and changes their members and roles.

A conversation exists when its head row does. One commit makes the head, the members and their inbox rows. Member
changes are numbered entries and go through the lane (send/lanes.py), so everybody agrees where in the log they are.
A create or delete runs outside of a lane, so it puts a marker into the keyspace before its commit. Should the node die
before the inboxes have followed, the marker makes the index of their users cold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import nsmallest
from itertools import count
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tidings.bounds import MEMBER_CHANGE_USERS_MAX, MEMBERS_NAMED_MAX, MEMBERS_SHOWN_MAX, PROFILES_MAX
from tidings.clock import Clock
from tidings.errors import (
    BadRequest,
    Forbidden,
    IdConflict,
    LastOwner,
    NotFound,
    StoreError,
    Throttled,
    TooLarge,
    Unavailable,
)
from tidings.ids import is_user_id
from tidings.messaging.access import Access, MemberList
from tidings.messaging.conversations.announcements import Announcements
from tidings.messaging.conversations.changes import change_draft
from tidings.messaging.conversations.direct_ids import client_made_id, direct_id, unkeyed_direct_id
from tidings.messaging.conversations.invitations import Invitations
from tidings.messaging.conversations.rows import Rows, direct_row, shared_rows
from tidings.messaging.people.consent import Consent
from tidings.messaging.people.name_index import NameIndex
from tidings.messaging.people.sight import Sight
from tidings.messaging.send.draft import Companion
from tidings.messaging.send.lanes import Sends
from tidings.messaging.unread.line import crossed
from tidings.messaging.unread.unknown_outcomes import UnknownOutcomes
from tidings.model import NO_RULES, ConversationKind, Head, HistoryRule, Member, MemberChange, Role, Row, Rules, User
from tidings.pushes import ConversationRemoved, ConversationUpdated
from tidings.routing.router import Router
from tidings.stores.keyspace.call import Call, Keyspace, plain
from tidings.stores.keyspace.scripts.messaging import Scripts
from tidings.stores.keyspace.scripts.tally import forget_tally
from tidings.stores.tables.ports import Accounts, Conversations, Inboxes
from tidings.stores.tables.records import DEPLOYMENT, Put, Records

DELETED = "deleted"  # records of the deployment: the ids of conversations that were deleted
_TOGETHER = 100  # rows of a user read in one go
_CREATES_AT_ONCE = 2  # commits of new conversations under way: a send waits for a few hundred rows, never for thousands


class View(msgspec.Struct, frozen=True):
    """A conversation as one member sees it. A long member list is cut, and `members_count` says how long it is."""

    head: Head
    members: tuple[Member, ...]  # by user_id, MEMBERS_SHOWN_MAX at most
    rules: Rules = NO_RULES
    members_count: int = 0  # 0: all members are in `members`
    role: Role | None = None  # of the member who looks; None: it is in `members`


@dataclass(eq=False, repr=False, kw_only=True)
class Directory:
    access: Access
    sight: Sight
    conversations: Conversations
    records: Records
    accounts: Accounts
    names: NameIndex
    sends: Sends
    announcements: Announcements
    rows: Rows
    consent: Consent
    invitations: Invitations
    inboxes: Inboxes
    router: Router
    keyspace: Keyspace
    scripts: Scripts
    unknown_outcomes: UnknownOutcomes
    clock: Clock
    members_max: int
    members_large: int

    def __post_init__(self) -> None:
        self._creating = asyncio.Semaphore(_CREATES_AT_ONCE)

    async def create(
        self,
        user_id: str,
        *,
        kind: ConversationKind,
        members: Sequence[str],
        name: str | None = None,
        avatar_url: str | None = None,
        history: HistoryRule | None = None,
        client_id: str | None = None,
        is_server: bool = False,
    ) -> tuple[View, bool]:
        """Create a conversation. Returns it, and whether it is new: a direct pair always has the same one. A repeated
        create with the same `client_id` makes no second conversation. A server needs nobody's consent."""
        others = list(dict.fromkeys(member for member in members if member != user_id))
        self._check_members(kind, others)
        invited: list[str] = []
        if kind == "direct":
            head, people, rows = await self._direct(user_id, others[0], is_server)
        else:
            if not is_server:
                others, invited = await self.consent.split(user_id, others)
            rule: HistoryRule = history or ("joined" if kind == "group" else "all")
            id_, now_ms = await self._shared_id(user_id, client_id), self.clock.now_ms()
            head = Head(
                conversation_id=id_, kind=kind, created_ms=now_ms, name=name, avatar_url=avatar_url, history=rule
            )
            line_ms = crossed(head, 1 + len(others), self.members_large, now_ms)
            head = msgspec.structs.replace(head, large_ms=line_ms or 0)
            people, rows = shared_rows(head, user_id, others)
        shown = [row for row in rows if not row.is_hidden]
        async with self._creating:
            note = await self.rows.mark(row.user_id for row in shown)
            is_new = await self._store(head, people, rows, shown, note)
        if not is_new:
            await self.keyspace.run(note)
            return await self._existing(user_id, head), False
        await self.rows.show(shown, note, line_ms=head.large_ms)
        await self.invitations.invite(head, invited)
        return View(head, tuple(people)), True

    async def _store(
        self, head: Head, people: list[Member], rows: list[Row], shown: list[Row], note: list[Call[Any]]
    ) -> bool:
        """Commit a new conversation. False: it exists."""
        try:
            with self.unknown_outcomes.of((row.user_id, "") for row in shown):
                return await self.conversations.create(head, people, rows)
        except (Throttled, Unavailable) as error:
            if isinstance(error, Throttled) or not error.is_ambiguous:  # nothing was written, so nobody goes cold
                with suppress(StoreError):
                    await self.keyspace.run(note)
            raise

    async def _existing(self, user_id: str, wanted: Head) -> View:
        view = await self.view(user_id, wanted.conversation_id)
        if view.head.kind != wanted.kind:
            raise IdConflict(f"this client_id was used for a {view.head.kind}")
        return view

    async def view(self, user_id: str, conversation_id: str) -> View:
        member_list = await self.access.authorize(user_id, conversation_id, "read")
        heads = await self.conversations.heads([conversation_id])
        if conversation_id not in heads:
            raise NotFound("no such conversation")
        people, count = _people(member_list), len(member_list.members)
        if count == len(people):
            return View(heads[conversation_id], people, member_list.rules)
        return View(heads[conversation_id], people, member_list.rules, count, member_list.members[user_id].role)

    async def members(self, user_id: str, conversation_id: str, *, after_id: str, limit: int) -> list[Member]:
        """Return a page of the members by user_id, from the one after `after_id` on."""
        await self.access.authorize(user_id, conversation_id, "read")
        return await self.conversations.members_after(conversation_id, after_id=after_id, limit=limit)

    async def rename(
        self,
        user_id: str,
        conversation_id: str,
        *,
        name: str | UnsetType | None = UNSET,
        avatar_url: str | UnsetType | None = UNSET,
        rules: Mapping[str, Any] | None = None,
        companion: Companion | None = None,
    ) -> View:
        """Change the name or the picture, as a numbered entry of kind `conversation`. It counts for nobody. The entry
        names `rules` too. All of it changes in the commit of the entry."""
        member_list = await self.access.authorize(user_id, conversation_id, "rename")
        given = {"name": name, "avatar_url": avatar_url, **(rules or {})}
        fields = {field: value for field, value in given.items() if not isinstance(value, UnsetType)}
        await self.sends.complete(change_draft(self.clock, user_id, member_list, fields, companion))
        await self.conversations.rename_rows(conversation_id)
        await self.access.load(conversation_id)
        rows = [(member_id, conversation_id) for member_id in member_list.members]
        self.announcements.announce(rows, ConversationUpdated)
        return await self.view(user_id, conversation_id)

    async def delete(self, user_id: str, conversation_id: str) -> None:
        """Delete the conversation, with all its entries, for everybody."""
        member_list = await self.access.authorize(user_id, conversation_id, "delete")
        note = await self.rows.mark(member_list.members)
        conv = self.scripts.keys.conv(conversation_id)
        leave, chill = self.scripts.inbox_leave, self.scripts.threads.unread_put
        leaves: list[Call[Any]] = [leave(member_id, conversation_id) for member_id in member_list.members]
        leaves += [chill(member_id, "deleted", hold_ms=-1) for member_id in member_list.members]
        # Nodes and devices remember what the conversation was, so no other one gets its id.
        await self.records.put([Put(DEPLOYMENT, DELETED, conversation_id, b"{}")])
        with self.unknown_outcomes.of(((user_id, "") for user_id in member_list.members), is_committed=True):
            await self.conversations.delete(conversation_id)
            self.access.forget([conversation_id])
            gone = [plain(conv, b"UNLINK", conv), *forget_tally(self.scripts.keys, conversation_id)]
            await self.keyspace.run([*gone, *leaves, *note])
        for member_id in member_list.members:
            self.router.push(member_id, ConversationRemoved(conversation_id))

    async def add(
        self, user_id: str, conversation_id: str, user_ids: Sequence[str], *, is_server: bool = False
    ) -> View:
        """Add users. A user who is a member already is skipped; a user who must agree first is invited.

        Many users join in slices, each an entry of its own. A call that fails half-way can be repeated as it is."""
        if not is_server and len(user_ids) > MEMBERS_NAMED_MAX:
            raise TooLarge(f"at most {MEMBERS_NAMED_MAX} people at a time")
        member_list = await self.access.authorize(user_id, conversation_id, "add")
        fresh = [id_ for id_ in dict.fromkeys(user_ids) if id_ not in member_list.members]
        self._check_members(member_list.head.kind, fresh)
        if len(member_list.members) + len(fresh) > self.members_max:
            raise TooLarge(f"a conversation has at most {self.members_max} members")
        if not is_server:
            fresh, invited = await self.consent.split(user_id, fresh)
            left = await self.invitations.of_those_who_left(conversation_id, fresh)
            fresh = [id_ for id_ in fresh if id_ not in left]
            await self.invitations.invite(member_list.head, [*invited, *left])
        for start in range(0, len(fresh), MEMBER_CHANGE_USERS_MAX):
            chunk = tuple(fresh[start : start + MEMBER_CHANGE_USERS_MAX])
            await self._change(user_id, conversation_id, MemberChange("added", chunk))
        return await self.view(user_id, conversation_id)

    async def remove(self, user_id: str, conversation_id: str, other_id: str) -> None:
        """Remove a member. A user who removes themself leaves."""
        for is_last_try in (False, False, True):
            try:
                return await self._remove(user_id, conversation_id, other_id)
            except LastOwner:  # the other owner left in the same moment: the next try finds an heir
                if is_last_try:
                    raise

    async def _remove(self, user_id: str, conversation_id: str, other_id: str) -> None:
        is_leaving = user_id == other_id
        if is_leaving and await self.invitations.decline(user_id, conversation_id):
            return
        member_list = await self.access.authorize(user_id, conversation_id, "read" if is_leaving else "remove")
        if member_list.head.kind == "direct":
            raise Forbidden("a direct conversation cannot be left")
        other = member_list.members.get(other_id)
        if other is None:
            raise NotFound("no such member")
        if not is_leaving and other.role == "owner":
            raise Forbidden("the owner cannot be removed")
        if (heir_id := _heir(member_list, other)) is not None:
            await self.sends.change_members(user_id, conversation_id, MemberChange("role", (heir_id,), "owner"))
        change = MemberChange("left" if is_leaving else "removed", (other_id,))
        await self.sends.change_members(user_id, conversation_id, change)

    async def set_role(self, user_id: str, conversation_id: str, other_id: str, role: Role) -> View:
        """Give a member a role. Only an owner may do this. An owner who names another owner stays an owner."""
        member_list = await self.access.authorize(user_id, conversation_id, "role")
        other = member_list.members.get(other_id)
        if other is None:
            raise NotFound("no such member")
        is_last_owner = other.role == "owner" and sum(m.role == "owner" for m in member_list.members.values()) == 1
        if is_last_owner and role != "owner":
            raise Forbidden("a conversation keeps an owner")
        if other.role != role:
            await self.sends.change_members(user_id, conversation_id, MemberChange("role", (other_id,), role))
        return await self.view(user_id, conversation_id)

    async def profiles(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[User]:
        """Return the profiles of members in the order asked, or of all members if none is named.

        A user who is not a member, or has left, is left out. Raises NotFound where the asker is not a member.
        """
        member_list = await self.access.authorize(user_id, conversation_id, "read")
        members = member_list.members
        ids = [id_ for id_ in dict.fromkeys(user_ids) if id_ in members] if user_ids else sorted(members)
        if max(len(ids), len(user_ids)) > PROFILES_MAX:
            raise TooLarge(f"at most {PROFILES_MAX} people at a time")
        hidden = await self.sight.hidden_from(user_id, member_list)
        ids = [id_ for id_ in ids if id_ not in hidden]
        found = await self.accounts.users(ids)
        return [found.get(id_) or User(user_id=id_) for id_ in ids]

    async def introduce(self, user: User) -> None:
        """Put a profile. Everybody who has a direct conversation with the user sees it there.

        The rows are written first. If that is interrupted, the profile is still the old one, and a second put finishes
        the work."""
        before = await self.accounts.user(user.user_id) or User(user_id=user.user_id)
        if (before.name, before.avatar_url) != (user.name, user.avatar_url):
            await self._relabel(user)
        await self.names.put_user(user, before)

    async def _relabel(self, user: User) -> None:
        after_id = ""
        while page := await self.inboxes.scan(user.user_id, after_id=after_id, limit=_TOGETHER):
            direct = [row.conversation_id for row in page if row.kind == "direct"]
            member_lists = await asyncio.gather(*(self.access.load(id_) for id_ in direct))
            rows = [
                (other_id, id_)
                for id_, member_list in zip(direct, member_lists, strict=True)
                for other_id in (member_list.members if member_list is not None else ())
                if member_list is not None and other_id != user.user_id and not member_list.is_unanswered(other_id)
            ]
            await self.inboxes.label(rows, name=user.name or user.user_id, avatar_url=user.avatar_url)
            self.announcements.announce(rows, ConversationUpdated)
            after_id = page[-1].conversation_id

    async def _change(self, user_id: str, conversation_id: str, change: MemberChange) -> None:
        # The new rows are made from the head that this node has in memory: it must be today's.
        await self.access.load(conversation_id)
        try:
            await self.sends.change_members(user_id, conversation_id, change)
        except NotFound:
            await self.access.authorize(user_id, conversation_id, "read")  # else: all of them came in meanwhile

    def _check_members(self, kind: ConversationKind, others: Sequence[str]) -> None:
        if kind == "direct" and len(others) != 1:
            raise BadRequest("a direct conversation has one other member")
        if bad := [id_ for id_ in others if not is_user_id(id_)]:
            raise BadRequest(f"not a user id: {bad[0][:40]!r}")
        if len(others) + 1 > self.members_max:
            raise TooLarge(f"a conversation has at most {self.members_max} members")

    async def accept(self, user_id: str, conversation_id: str) -> View:
        """Accept an invitation, or the request of a stranger."""
        await self.invitations.accept(user_id, conversation_id)
        view = await self.view(user_id, conversation_id)
        if view.head.kind == "direct":  # from now on the other side sees the name
            me = await self.accounts.user(user_id) or User(user_id=user_id)
            theirs = [(one.user_id, conversation_id) for one in view.members if one.user_id != user_id]
            await self.inboxes.label(theirs, name=me.name or user_id, avatar_url=me.avatar_url)
            self.announcements.announce(theirs, ConversationUpdated)
        return view

    async def _direct(self, user_id: str, other_id: str, is_server: bool) -> tuple[Head, list[Member], list[Row]]:
        now_ms, id_ = self.clock.now_ms(), await self._direct_id(user_id, other_id)
        me, other = await asyncio.gather(self.accounts.user(user_id), self.accounts.user(other_id))
        head = Head(conversation_id=id_, kind="direct", created_ms=now_ms, history="all")
        is_known = is_server or bool(await self.conversations.heads([id_]))
        is_request = not is_known and await self.consent.is_request(user_id, other_id)
        people = [
            Member(conversation_id=id_, user_id=one, joined_ms=now_ms, is_requested=is_request and one == other_id)
            for one in sorted((user_id, other_id))
        ]
        rows = [
            direct_row(id_, user_id, other_id, None if is_request else other, now_ms, is_hidden=False),
            direct_row(id_, other_id, user_id, me, now_ms, is_hidden=True, is_requested=is_request),
        ]
        return head, people, rows

    async def _direct_id(self, user_id: str, other_id: str) -> str:
        """A conversation that was made before ids were keyed keeps its id."""
        older = unkeyed_direct_id(user_id, other_id)
        if await self.conversations.heads([older]):
            return older
        return direct_id(user_id, other_id, self.accounts.secret)

    async def _shared_id(self, user_id: str, client_id: str | None) -> str:
        """An id that no conversation had before, or that of the conversation which the user created as `client_id`."""
        if client_id is None:
            return "c-" + self.clock.random_id()
        for life in count():
            id_ = client_made_id(user_id, client_id, self.accounts.secret, life)
            if not await self.records.get(DEPLOYMENT, DELETED, [id_]):
                break
        return id_


def _heir(member_list: MemberList, leaving: Member) -> str | None:
    """The next owner when the only one leaves: the member who was admin, else member, for the longest time."""
    others = [member for member in member_list.members.values() if member.user_id != leaving.user_id]
    if leaving.role != "owner" or not others or any(member.role == "owner" for member in others):
        return None
    return min(others, key=lambda one: (one.role != "admin", one.joined_seq, one.joined_ms, one.user_id)).user_id


def _people(member_list: MemberList) -> tuple[Member, ...]:
    return tuple(nsmallest(MEMBERS_SHOWN_MAX, member_list.members.values(), key=lambda member: member.user_id))
