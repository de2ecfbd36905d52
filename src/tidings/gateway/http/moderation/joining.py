"""Routes by which people find and join conversations, and by which they are kept out."""

from __future__ import annotations

from msgspec import UNSET

from tidings.bounds import PAGE_MAX
from tidings.cursors import cursor_of, place_at
from tidings.gateway.http.routes import Reply, Request, Routes, pay_create, route
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.moderation.bans import Bans
from tidings.messaging.moderation.joining import Invite, Joining
from tidings.protocol.rule_bodies import (
    BanBody,
    DirectoryBody,
    DirectoryQuery,
    InviteBody,
    InviteMadeBody,
    InvitesBody,
    JoinedBody,
    ListedBody,
    NewInvite,
)

_ONE = "/v1/conversations/{conversation_id}"
_BAN = _ONE + "/bans/{user_id}"
_INVITES = _ONE + "/invites"
_REFUSED = ("not_found", "forbidden")


class JoiningRoutes(Routes):
    def __init__(self, joining: Joining, bans: Bans, limiter: Limiter) -> None:
        self._joining = joining
        self._bans = bans
        self._limiter = limiter

    @route("GET", "/v1/directory", query=DirectoryQuery, answer=DirectoryBody, errors=("bad_cursor",))
    async def directory(self, request: Request) -> Reply:
        """List the conversations that everybody may find."""
        query: DirectoryQuery = request.query
        after = place_at(query.cursor, str) if query.cursor else ""
        found, last = await self._joining.listed(query.query, after, min(query.limit, PAGE_MAX))
        listed = [ListedBody(one.conversation_id, one.kind, one.name, one.avatar_url) for one in found]
        return Reply(200, DirectoryBody(listed, cursor_of(last)))

    @route("POST", _ONE + "/join", answer=JoinedBody, errors=_REFUSED)
    async def join(self, request: Request) -> Reply:
        """Join an open conversation."""
        await pay_create(self._limiter, request)
        await self._joining.join(request.user_id, request.id())
        return Reply(200, JoinedBody(request.id()))

    @route("POST", "/v1/invites/{invite}", answer=JoinedBody, errors=("gone", "forbidden"))
    async def use(self, request: Request) -> Reply:
        """Join by an invite."""
        await pay_create(self._limiter, request)
        return Reply(200, JoinedBody(await self._joining.use(request.user_id, request.params[0])))

    @route(
        "POST",
        _INVITES,
        body=NewInvite,
        is_body_optional=True,
        answer=InviteMadeBody,
        statuses=(201,),
        errors=(*_REFUSED, "too_large"),
    )
    async def invite(self, request: Request) -> Reply:
        """Make an invite; its text is shown once."""
        asked: NewInvite = request.body
        await pay_create(self._limiter, request)
        invite, made = await self._joining.invite(
            request.user_id, request.id(), expires_s=asked.expires_s, uses=asked.uses, role=asked.role
        )
        return Reply(201, InviteMadeBody(invite, f"/#invite={invite}", made.invite_id))

    @route("GET", _INVITES, answer=InvitesBody, errors=_REFUSED)
    async def invites(self, request: Request) -> Reply:
        """List the invites of a conversation."""
        found = await self._joining.invites(request.user_id, request.id())
        return Reply(200, InvitesBody([_body(one) for one in found]))

    @route("DELETE", _INVITES + "/{invite_id}", statuses=(204,), errors=_REFUSED)
    async def withdraw(self, request: Request) -> Reply:
        """Withdraw an invite."""
        await self._joining.withdraw(request.user_id, request.id(), request.params[1])
        return Reply(204)

    @route("PUT", _BAN, body=BanBody, is_body_optional=True, statuses=(204,), errors=_REFUSED)
    async def ban(self, request: Request) -> Reply:
        """Ban a person, for ever or until a time."""
        asked: BanBody = request.body
        await self._bans.put(request.user_id, request.id(), request.id(1), asked.until)
        return Reply(204)

    @route("DELETE", _BAN, statuses=(204,), errors=_REFUSED)
    async def unban(self, request: Request) -> Reply:
        """End a ban."""
        await self._bans.end(request.user_id, request.id(), request.id(1))
        return Reply(204)


def _body(one: Invite) -> InviteBody:
    return InviteBody(
        one.invite_id,
        one.by,
        one.created,
        one.role,
        UNSET if one.expires is None else one.expires,
        UNSET if one.uses_left is None else one.uses_left,
    )
