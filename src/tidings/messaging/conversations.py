"""Conversations and their members: create, look, rename, delete, add, remove, roles; and what people show of
themselves.

A conversation exists when its head row does; the head, the members and their inbox rows are made in one commit. Member
changes are numbered entries and go through the lane (send.py), so everybody agrees where in the log they happened.
What is made or deleted outside of a lane is noted in the keyspace before the commit: should the node die before the
inboxes have followed, their users are COLD. Called by the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tidings.bounds import MEMBER_CHANGE_USERS_MAX, PROFILES_MAX
from tidings.clock import Clock
from tidings.errors import BadRequest, Forbidden, Missing, NotFound, Problem, StoreError, TooLarge
from tidings.messaging.access import Access, Roster
from tidings.messaging.doubts import Doubts
from tidings.messaging.inbox import Inbox
from tidings.messaging.rebuild import HOLD_MS
from tidings.messaging.send import Sends
from tidings.model import (
    ConversationAdded,
    ConversationKind,
    ConversationRemoved,
    ConversationUpdated,
    Head,
    HistoryRule,
    Member,
    MemberChange,
    Role,
    Row,
    User,
    direct_id,
    is_id,
)
from tidings.routing.router import Router
from tidings.stores.calls import Call, Keyspace, plain
from tidings.stores.ports import Accounts, Conversations, Inboxes
from tidings.stores.scripts import Scripts

_TOGETHER = 100  # rows of a user looked at in one go


class View(msgspec.Struct, frozen=True):
    head: Head
    members: tuple[Member, ...]


class Directory:
    def __init__(
        self,
        *,
        access: Access,
        conversations: Conversations,
        accounts: Accounts,
        sends: Sends,
        inbox: Inbox,
        inboxes: Inboxes,
        router: Router,
        keyspace: Keyspace,
        scripts: Scripts,
        doubts: Doubts,
        clock: Clock,
        members_max: int,
    ) -> None:
        self._access = access
        self._conversations = conversations
        self._accounts = accounts
        self._sends = sends
        self._inbox = inbox
        self._inboxes = inboxes
        self._router = router
        self._keyspace = keyspace
        self._scripts = scripts
        self._doubts = doubts
        self._clock = clock
        self._members_max = members_max

    async def create(
        self,
        user_id: str,
        *,
        kind: ConversationKind,
        members: Sequence[str],
        name: str | None = None,
        avatar_url: str | None = None,
        history: HistoryRule | None = None,
    ) -> tuple[View, bool]:
        """The conversation, and whether it was made now: the same direct pair is always the same one."""
        others = list(dict.fromkeys(member for member in members if member != user_id))
        self._check_members(kind, others)
        if kind == "direct":
            head, people, rows = await self._direct(user_id, others[0])
        else:
            head, people, rows = self._shared(user_id, others, kind, name, avatar_url, history)
        shown = [row for row in rows if not row.is_hidden]
        note = await self._note(row.user_id for row in shown)
        with self._doubts.of(row.user_id for row in shown):
            is_new = await self._conversations.create(head, people, rows)
        if not is_new:
            await self._keyspace.run(note)
            return await self.view(user_id, head.conversation_id), False
        await self._show(shown, note)
        return View(head, tuple(people)), True

    async def view(self, user_id: str, conversation_id: str) -> View:
        roster = await self._access.authorize(user_id, conversation_id, "read")
        heads = await self._conversations.heads([conversation_id])
        if conversation_id not in heads:
            raise NotFound("no such conversation")
        return View(heads[conversation_id], _people(roster))

    async def rename(
        self,
        user_id: str,
        conversation_id: str,
        *,
        name: str | UnsetType | None = UNSET,
        avatar_url: str | UnsetType | None = UNSET,
    ) -> View:
        roster = await self._access.authorize(user_id, conversation_id, "rename")
        before = (await self.view(user_id, conversation_id)).head
        try:
            await self._conversations.rename(
                conversation_id,
                name=before.name if isinstance(name, UnsetType) else name,
                avatar_url=before.avatar_url if isinstance(avatar_url, UnsetType) else avatar_url,
            )
        except Missing:
            raise NotFound("no such conversation") from None
        await self._access.load(conversation_id)
        for member_id in roster.members:
            await self._tell(member_id, conversation_id, ConversationUpdated)
        return await self.view(user_id, conversation_id)

    async def delete(self, user_id: str, conversation_id: str) -> None:
        """Everything of it goes, for everybody."""
        roster = await self._access.authorize(user_id, conversation_id, "delete")
        note = await self._note(roster.members)
        conv = self._scripts.keys.conv(conversation_id)
        leaves = [self._scripts.inbox_leave(member_id, conversation_id) for member_id in roster.members]
        with self._doubts.of(roster.members):
            await self._conversations.delete(conversation_id)
            self._access.forget([conversation_id])
            await self._keyspace.run([plain(conv, b"UNLINK", conv), *leaves, *note])
        for member_id in roster.members:
            self._router.push(member_id, ConversationRemoved(conversation_id))

    async def add(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> View:
        """Who is a member already is passed over."""
        roster = await self._access.authorize(user_id, conversation_id, "add")
        fresh = [id_ for id_ in dict.fromkeys(user_ids) if id_ not in roster.members]
        self._check_members(roster.head.kind, fresh)
        if len(roster.members) + len(fresh) > self._members_max:
            raise TooLarge(f"a conversation has at most {self._members_max} members")
        for start in range(0, len(fresh), MEMBER_CHANGE_USERS_MAX):
            chunk = tuple(fresh[start : start + MEMBER_CHANGE_USERS_MAX])
            await self._change(user_id, conversation_id, MemberChange("added", chunk))
        return await self.view(user_id, conversation_id)

    async def remove(self, user_id: str, conversation_id: str, other_id: str) -> None:
        """Oneself: leave."""
        is_leaving = user_id == other_id
        roster = await self._access.authorize(user_id, conversation_id, "read" if is_leaving else "remove")
        if roster.head.kind == "direct":
            raise Forbidden("a direct conversation cannot be left")
        other = roster.members.get(other_id)
        if other is None:
            raise NotFound("no such member")
        if not is_leaving and other.role == "owner":
            raise Forbidden("the owner cannot be removed")
        if (heir_id := _heir(roster, other)) is not None:
            await self._sends.change_members(user_id, conversation_id, MemberChange("role", (heir_id,), "owner"))
        change = MemberChange("left" if is_leaving else "removed", (other_id,))
        await self._sends.change_members(user_id, conversation_id, change)

    async def set_role(self, user_id: str, conversation_id: str, other_id: str, role: Role) -> View:
        """Only the owner gives roles. Making another the owner keeps one's own."""
        roster = await self._access.authorize(user_id, conversation_id, "role")
        other = roster.members.get(other_id)
        if other is None:
            raise NotFound("no such member")
        is_last_owner = other.role == "owner" and sum(m.role == "owner" for m in roster.members.values()) == 1
        if is_last_owner and role != "owner":
            raise Forbidden("a conversation keeps an owner")
        if other.role != role:
            await self._sends.change_members(user_id, conversation_id, MemberChange("role", (other_id,), role))
        return await self.view(user_id, conversation_id)

    async def profiles(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[User]:
        """What members show of themselves, in the order asked; nobody named: all of them.

        Whoever is not a member, or has left, is left out. NotFound where the asker is not one."""
        roster = await self._access.authorize(user_id, conversation_id, "read")
        ids = [id_ for id_ in dict.fromkeys(user_ids) if id_ in roster.members] if user_ids else sorted(roster.members)
        if max(len(ids), len(user_ids)) > PROFILES_MAX:
            raise TooLarge(f"at most {PROFILES_MAX} people at a time")
        found = await asyncio.gather(*(self._accounts.user(id_) for id_ in ids))
        return [user or User(user_id=id_) for id_, user in zip(ids, found, strict=True)]

    async def introduce(self, user: User) -> None:
        """Put a profile: who has a direct conversation with the user sees it there.

        The rows are written first. Should that be interrupted, the profile is still another one than asked for, and
        putting it again finishes the work."""
        before = await self._accounts.user(user.user_id) or User(user_id=user.user_id)
        if (before.name, before.avatar_url) != (user.name, user.avatar_url):
            await self._relabel(user)
        await self._accounts.put_user(user)

    async def _relabel(self, user: User) -> None:
        after_id = ""
        while page := await self._inboxes.scan(user.user_id, after_id=after_id, limit=_TOGETHER):
            direct = [row.conversation_id for row in page if row.kind == "direct"]
            rosters = await asyncio.gather(*(self._access.load(id_) for id_ in direct))
            rows = [
                (other_id, id_)
                for id_, roster in zip(direct, rosters, strict=True)
                for other_id in (roster.members if roster is not None else ())
                if other_id != user.user_id
            ]
            await self._inboxes.label(rows, name=user.name or user.user_id, avatar_url=user.avatar_url)
            for other_id, id_ in rows:
                await self._tell(other_id, id_, ConversationUpdated)
            after_id = page[-1].conversation_id

    async def _change(self, user_id: str, conversation_id: str, change: MemberChange) -> None:
        # The new rows are made from the head that this node has in memory: it must be today's.
        await self._access.load(conversation_id)
        try:
            await self._sends.change_members(user_id, conversation_id, change)
        except NotFound:
            await self._access.authorize(user_id, conversation_id, "read")  # else: all of them came in meanwhile

    def _check_members(self, kind: ConversationKind, others: Sequence[str]) -> None:
        if kind == "direct" and len(others) != 1:
            raise BadRequest("a direct conversation has one other member")
        if bad := [id_ for id_ in others if not is_id(id_)]:
            raise BadRequest(f"not a user id: {bad[0][:40]!r}")
        if len(others) + 1 > self._members_max:
            raise TooLarge(f"a conversation has at most {self._members_max} members")

    async def _direct(self, user_id: str, other_id: str) -> tuple[Head, list[Member], list[Row]]:
        now_ms, id_ = self._clock.now_ms(), direct_id(user_id, other_id)
        me, other = await asyncio.gather(self._accounts.user(user_id), self._accounts.user(other_id))
        head = Head(conversation_id=id_, kind="direct", created_ms=now_ms, history="all")
        people = [Member(conversation_id=id_, user_id=one, joined_ms=now_ms) for one in sorted((user_id, other_id))]
        rows = [
            _direct_row(id_, user_id, other_id, other, now_ms, is_hidden=False),
            _direct_row(id_, other_id, user_id, me, now_ms, is_hidden=True),
        ]
        return head, people, rows

    def _shared(
        self,
        user_id: str,
        others: Sequence[str],
        kind: ConversationKind,
        name: str | None,
        avatar_url: str | None,
        history: HistoryRule | None,
    ) -> tuple[Head, list[Member], list[Row]]:
        now_ms, id_ = self._clock.now_ms(), "c-" + self._clock.random_id()
        head = Head(
            conversation_id=id_,
            kind=kind,
            created_ms=now_ms,
            name=name,
            avatar_url=avatar_url,
            history=history or ("joined" if kind == "group" else "all"),
        )
        people = [Member(conversation_id=id_, user_id=user_id, role="owner", joined_ms=now_ms)]
        people += [Member(conversation_id=id_, user_id=other, joined_ms=now_ms) for other in others]
        rows = [
            Row(
                user_id=one.user_id,
                conversation_id=id_,
                kind=kind,
                name=name,
                avatar_url=avatar_url,
                joined_ms=now_ms,
            )
            for one in people
        ]
        return head, people, rows

    async def _note(self, user_ids: Iterable[str]) -> list[Call[Any]]:
        """Noted in the keyspace; the answer takes it back. Raises Unavailable, and then nothing has changed."""
        token, put, users = self._clock.random_id(8), self._scripts.unread_put, list(user_ids)
        await self._keyspace.run([put(user_id, token, hold_ms=HOLD_MS) for user_id in users])
        return [put(user_id, token, hold_ms=0) for user_id in users]

    async def _show(self, rows: Sequence[Row], note: Sequence[Call[Any]]) -> None:
        """Enter the inboxes, and tell who is connected: also whoever made it, who may have other devices."""
        join = self._scripts.inbox_join
        joins = [join(row.user_id, row.conversation_id, score_ms=row.joined_ms, version=0, cursor=0) for row in rows]
        try:
            with self._doubts.of(row.user_id for row in rows):
                await self._keyspace.run([*joins, *note])
        except StoreError:
            return  # the rows are committed, and the note stays
        for row in rows:
            await self._tell(row.user_id, row.conversation_id, ConversationAdded)

    async def _tell(
        self, user_id: str, conversation_id: str, event: type[ConversationAdded] | type[ConversationUpdated]
    ) -> None:
        if self._router.may_reach(user_id):
            try:
                item = await self._inbox.item(user_id, conversation_id)
            except (StoreError, Problem):
                return  # seen with the next inbox page, or left meanwhile
            if not item.row.is_hidden or item.row.last_seq > 0:
                self._router.push(user_id, event(item))


def _heir(roster: Roster, leaving: Member) -> str | None:
    """Who becomes the owner when the only one leaves: the one who has led, else been there, the longest."""
    others = [member for member in roster.members.values() if member.user_id != leaving.user_id]
    if leaving.role != "owner" or not others or any(member.role == "owner" for member in others):
        return None
    return min(others, key=lambda one: (one.role != "admin", one.joined_seq, one.joined_ms, one.user_id)).user_id


def _direct_row(id_: str, user_id: str, other_id: str, other: User | None, now_ms: int, *, is_hidden: bool) -> Row:
    return Row(
        user_id=user_id,
        conversation_id=id_,
        kind="direct",
        name=(other.name if other else None) or other_id,
        avatar_url=other.avatar_url if other else None,
        joined_ms=0 if is_hidden else now_ms,
        is_hidden=is_hidden,
    )


def _people(roster: Roster) -> tuple[Member, ...]:
    return tuple(sorted(roster.members.values(), key=lambda member: member.user_id))
