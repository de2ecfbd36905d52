"""Routes of conversations and their members.

Making a conversation, and changing members or names, writes rows of people who did not ask for it. So these routes have
a budget of their own, class `create`, and are charged by the people they name. The team's own server pays none of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET

from tidings.bounds import MEMBERS_BULK_BYTES_MAX, MEMBERS_CHANGED_PER_SLOT, MEMBERS_NAMED_PER_SLOT, PAGE_MAX
from tidings.errors import BadCursor
from tidings.gateway.encode import conversation_of, member_of
from tidings.gateway.http.pictures import Pictures
from tidings.gateway.http.routes import Reply, Request, Routes, ids_of, pay_create, route
from tidings.ids import is_user_id
from tidings.messaging.conversations.directory import Directory, View
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.moderation.rules import RuleChanges
from tidings.messaging.search.search import Search
from tidings.model import Rules
from tidings.protocol.bodies import (
    ConversationBody,
    ConversationPatch,
    MembersBody,
    MembersQuery,
    NewConversation,
    NewMembers,
    RolePatch,
)
from tidings.protocol.client_frames import check_data
from tidings.protocol.people_bodies import ProfileBody, ProfilesBody, ProfilesQuery

_ONE = "/v1/conversations/{conversation_id}"
_MEMBER = _ONE + "/members/{user_id}"
_REFUSED = ("not_found", "forbidden")
_RULES = Rules.__struct_fields__


@dataclass(eq=False, repr=False)
class ConversationRoutes(Routes):
    directory: Directory
    rules: RuleChanges
    pictures: Pictures
    limiter: Limiter
    search: Search

    @route(
        "POST",
        "/v1/conversations",
        body=NewConversation,
        answer=ConversationBody,
        statuses=(201, 200),
        errors=("too_large",),
    )
    async def create(self, request: Request) -> Reply:
        """Create a conversation; the same direct pair twice is the same conversation."""
        asked: NewConversation = request.body
        self.pictures.check(asked.avatar_url)
        await pay_create(self.limiter, request, _slots(asked.members, MEMBERS_NAMED_PER_SLOT))
        view, is_new = await self.directory.create(
            request.user_id,
            kind=asked.kind,
            members=asked.members,
            name=asked.name,
            avatar_url=asked.avatar_url,
            history=asked.history,
            client_id=asked.client_id,
            is_server=request.caller.role is not None,
        )
        return _reply(request, view, 201 if is_new else 200)

    @route("GET", _ONE, answer=ConversationBody, errors=_REFUSED)
    async def view(self, request: Request) -> Reply:
        """Show a conversation and its members."""
        return _reply(request, await self.directory.view(request.user_id, request.id()))

    @route("PATCH", _ONE, body=ConversationPatch, answer=ConversationBody, errors=_REFUSED)
    async def rename(self, request: Request) -> Reply:
        """Change name, avatar or rules."""
        patch: ConversationPatch = request.body
        self.pictures.check(patch.avatar_url)
        if patch.data:
            check_data(patch.data)
        await pay_create(self.limiter, request)
        if rules := {name: value for name in _RULES if (value := getattr(patch, name)) is not UNSET}:
            rules |= {"slow_s": None} if rules.get("slow_s") == 0 else {}
        if patch.name is UNSET and patch.avatar_url is UNSET:
            if rules:
                await self.rules.change(request.user_id, request.id(), rules)
            return _reply(request, await self.directory.view(request.user_id, request.id()))
        companion = await self.rules.prepare(request.user_id, request.id(), rules) if rules else None
        view = await self.directory.rename(
            request.user_id,
            request.id(),
            name=patch.name,
            avatar_url=patch.avatar_url,
            rules=rules,
            companion=companion,
        )
        return _reply(request, view)

    @route("DELETE", _ONE, statuses=(204,), errors=_REFUSED)
    async def delete(self, request: Request) -> Reply:
        """Delete a conversation for everyone."""
        await self.directory.delete(request.user_id, request.id())
        self.search.deleted(request.id())
        return Reply(204)

    @route("GET", _ONE + "/members", query=MembersQuery, answer=MembersBody, errors=("not_found", "bad_cursor"))
    async def members(self, request: Request) -> Reply:
        """Read a page of the members, by user_id."""
        query: MembersQuery = request.query
        limit, after_id = min(query.limit, PAGE_MAX), query.cursor or ""
        if after_id and not is_user_id(after_id):
            raise BadCursor()
        found = await self.directory.members(request.user_id, request.id(), after_id=after_id, limit=limit + 1)
        page = [member_of(one) for one in found[:limit]]
        return Reply(200, MembersBody(page, page[-1].user_id if len(found) > limit else None))

    @route(
        "POST",
        _ONE + "/members",
        body=NewMembers,
        answer=ConversationBody,
        errors=(*_REFUSED, "too_large"),
        server_body_bytes_max=MEMBERS_BULK_BYTES_MAX,
    )
    async def add(self, request: Request) -> Reply:
        """Add members: 1,000 at most, or 10,000 with a server key."""
        asked: NewMembers = request.body
        is_server = request.caller.role is not None
        await pay_create(self.limiter, request, _slots(asked.user_ids, MEMBERS_CHANGED_PER_SLOT))
        view = await self.directory.add(request.user_id, request.id(), asked.user_ids, is_server=is_server)
        return _reply(request, view)

    @route("PUT", _ONE + "/accept", answer=ConversationBody, errors=("not_found",))
    async def accept(self, request: Request) -> Reply:
        """Accept an invitation, or the request of a stranger."""
        return _reply(request, await self.directory.accept(request.user_id, request.id()))

    @route("PATCH", _MEMBER, body=RolePatch, answer=ConversationBody, errors=_REFUSED)
    async def set_role(self, request: Request) -> Reply:
        """Change a member's role."""
        asked: RolePatch = request.body
        await pay_create(self.limiter, request)
        view = await self.directory.set_role(request.user_id, request.id(), request.user(1), asked.role)
        return _reply(request, view)

    @route("DELETE", _MEMBER, statuses=(204,), errors=_REFUSED)
    async def remove(self, request: Request) -> Reply:
        """Remove a member, or leave."""
        if request.user(1) != request.user_id:  # everybody may leave at any time
            await pay_create(self.limiter, request)
        await self.directory.remove(request.user_id, request.id(), request.user(1))
        return Reply(204)

    @route("GET", _ONE + "/profiles", query=ProfilesQuery, answer=ProfilesBody, errors=("not_found", "too_large"))
    async def profiles(self, request: Request) -> Reply:
        """Show names and pictures of members."""
        query: ProfilesQuery = request.query
        found = await self.directory.profiles(request.user_id, request.id(), ids_of(query.user_ids))
        return Reply(200, ProfilesBody([ProfileBody(one.user_id, one.name, one.avatar_url) for one in found]))


def _slots(user_ids: Sequence[str], per_slot: int) -> int:
    return max(1, -(-len(user_ids) // per_slot))


def _reply(request: Request, view: View, status: int = 200) -> Reply:
    return Reply(status, conversation_of(view, request.user_id))
