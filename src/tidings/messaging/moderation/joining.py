"""Joining by oneself: conversations that are listed or open, and invites.

An invite is a record of its conversation under the hash of its secret. A use of it is counted in the commit of the
member entry, on the condition that nobody else used it in between. So an invite of 100 uses lets exactly 100 people in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from tidings.clock import Clock
from tidings.errors import Forbidden, Gone, NotFound, TooLarge
from tidings.ids import is_id
from tidings.messaging.access import Access
from tidings.messaging.moderation.rules import LISTED
from tidings.messaging.send.draft import Companion, Draft
from tidings.messaging.send.lanes import Sends
from tidings.model import Entry, Head, MemberChange
from tidings.stores.tables.ports import Conversations
from tidings.stores.tables.records import DEPLOYMENT, Put, Record, RecordKey, Records, of_conversation

INVITES = "invites"
_INVITES_MAX = 100  # of one conversation; a list of them is one page
_SCAN_PAGES = 20  # pages of listed conversations that one request looks at
InviteRole = Literal["admin", "member"]


class Invite(msgspec.Struct, frozen=True, omit_defaults=True):
    by: str
    created: int
    invite_id: str = ""  # the name of its record: a hash of the secret
    expires: int | None = None
    uses_left: int | None = None  # None: as many as come
    role: InviteRole = "member"


@dataclass(eq=False, repr=False)
class Joining:
    access: Access
    conversations: Conversations
    records: Records
    sends: Sends
    clock: Clock

    # --- conversations that are found ---------------------------------------------------------------

    async def listed(self, query: str, after: str, limit: int) -> tuple[list[Head], str | None]:
        """A page of the conversations that everybody may find, by id, and where the next page begins."""
        wanted, found = query.casefold(), []
        for _ in range(_SCAN_PAGES):
            names = [one.name for one in await self.records.page(DEPLOYMENT, LISTED, limit=limit, after=after)]
            heads = await self.conversations.heads(names)
            for name in names:
                after = name
                if name in heads and wanted in (heads[name].name or "").casefold():
                    found.append(heads[name])
                if len(found) == limit:
                    return found, after
            if len(names) < limit:
                return found, None
        return found, after

    async def join(self, user_id: str, conversation_id: str) -> None:
        """Join an open conversation. For a member nothing changes. Raises NotFound, Forbidden."""
        member_list = await self.access.fresh(conversation_id)
        if member_list is not None and user_id in member_list.members:
            return
        if member_list is None or member_list.rules.visibility == "private":
            raise NotFound("no such conversation")
        if member_list.rules.visibility != "open":
            raise Forbidden("this conversation needs an invite")
        await self._enter(user_id, conversation_id, "member", None)

    # --- invites ------------------------------------------------------------------------------------

    async def invite(
        self, user_id: str, conversation_id: str, *, expires_s: int | None, uses: int | None, role: InviteRole
    ) -> tuple[str, Invite]:
        """Make an invite. Returns its text, which is shown once, and the invite. Raises NotFound, Forbidden."""
        await self.access.authorize(user_id, conversation_id, "role" if role == "admin" else "add")
        owner = of_conversation(conversation_id)
        if len(await self.records.page(owner, INVITES, limit=_INVITES_MAX)) >= _INVITES_MAX:
            raise TooLarge(f"a conversation has at most {_INVITES_MAX} invites")
        now_ms, secret = self.clock.now_ms(), self.clock.random_id(20)
        expires = None if expires_s is None else now_ms + expires_s * 1000
        made = Invite(user_id, now_ms, _name_of(secret), expires, uses, role)
        await self.records.put([Put(owner, INVITES, made.invite_id, msgspec.json.encode(made), expected=0)])
        return f"{secret}.{conversation_id}", made

    async def invites(self, user_id: str, conversation_id: str) -> list[Invite]:
        await self.access.authorize(user_id, conversation_id, "add")
        found = await self.records.page(of_conversation(conversation_id), INVITES, limit=_INVITES_MAX)
        return sorted(map(_invite, found), key=lambda one: one.created)

    async def withdraw(self, user_id: str, conversation_id: str, invite_id: str) -> None:
        await self.access.authorize(user_id, conversation_id, "add")
        owner = of_conversation(conversation_id)
        if invite_id not in await self.records.get(owner, INVITES, [invite_id]):
            raise NotFound("no such invite")
        await self.records.put([Put(owner, INVITES, invite_id, None)])

    async def use(self, user_id: str, invite: str) -> str:
        """Join by an invite, and return the conversation. A member uses no place of it. Raises Gone, Forbidden."""
        secret, _, conversation_id = invite.partition(".")
        if not is_id(conversation_id):
            raise Gone("there is no such invite any more")
        member_list = await self.access.fresh(conversation_id)
        use = _Use(self.records, conversation_id, _name_of(secret), self.clock)
        await use.read()
        if member_list is None:
            raise Gone("there is no such invite any more")
        if user_id not in member_list.members:
            await self._enter(user_id, conversation_id, use.invite.role, use)
        return conversation_id

    async def _enter(self, user_id: str, conversation_id: str, role: InviteRole, companion: Companion | None) -> None:
        await self.access.load(conversation_id)  # the new row is made from the head that this node has in memory
        draft = Draft(
            sender_id=user_id,
            conversation_id=conversation_id,
            message_id=self.clock.random_id(),
            kind="member",
            change=MemberChange("added", (user_id,), role if role != "member" else None),
            companion=companion,
            is_invited=True,
        )
        try:
            await self.sends.join(draft)
        except NotFound:
            await self.access.authorize(user_id, conversation_id, "read")  # else: the user came in meanwhile


class _Use:
    """The companion of a join: one use less, or Gone."""

    last_seq = 0

    def __init__(self, records: Records, conversation_id: str, name: str, clock: Clock) -> None:
        self._records = records
        self._key = RecordKey(of_conversation(conversation_id), INVITES, name)
        self._clock = clock
        self._version = 0
        self.invite = Invite("", 0)
        self.keys = frozenset((self._key,))

    async def read(self) -> None:
        found = (await self._records.get(self._key.owner, INVITES, [self._key.name])).get(self._key.name)
        if found is None:
            raise Gone("there is no such invite any more")
        self.invite, self._version = _invite(found), found.version
        is_over = self.invite.expires is not None and self.invite.expires <= self._clock.now_ms()
        if is_over or self.invite.uses_left == 0:
            raise Gone("the invite is over" if is_over else "the invite is used up")

    def puts(self, entry: Entry) -> Sequence[Put]:
        left = None if self.invite.uses_left is None else self.invite.uses_left - 1
        value = msgspec.json.encode(msgspec.structs.replace(self.invite, uses_left=left))
        return [Put(*self._key, value, expected=self._version)]


def _name_of(secret: str) -> str:
    """The name of an invite's record. The secret is long and random, so one round of SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()[:32]


def _invite(record: Record) -> Invite:
    return msgspec.json.decode(record.value, type=Invite)
