"""Routes by which people find and join conversations, and by which they are kept out."""

from __future__ import annotations

from msgspec import UNSET

from tidings.bounds import PAGE_MAX
from tidings.gateway.http.routes import Reply, Request, Route, pay_create
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


class JoiningRoutes:
    def __init__(self, joining: Joining, bans: Bans, limiter: Limiter) -> None:
        self._joining = joining
        self._bans = bans
        self._limiter = limiter

    def routes(self) -> list[Route]:
        return [*self._ways_in(), *self._invites(), *self._ways_out()]

    def _ways_in(self) -> list[Route]:
        return [
            Route(
                "GET",
                "/v1/directory",
                self.directory,
                "Conversations that everybody may find",
                query=DirectoryQuery,
                answer=DirectoryBody,
            ),
            Route("POST", _ONE + "/join", self.join, "Join an open conversation", answer=JoinedBody, errors=_REFUSED),
            Route(
                "POST",
                "/v1/invites/{invite}",
                self.use,
                "Join by an invite",
                answer=JoinedBody,
                errors=("gone", "forbidden"),
            ),
        ]

    def _invites(self) -> list[Route]:
        return [
            Route(
                "POST",
                _INVITES,
                self.invite,
                "Make an invite; its text is shown once",
                body=NewInvite,
                is_body_optional=True,
                answer=InviteMadeBody,
                statuses=(201,),
                errors=(*_REFUSED, "too_large"),
            ),
            Route("GET", _INVITES, self.invites, "The invites of a conversation", answer=InvitesBody, errors=_REFUSED),
            Route(
                "DELETE",
                _INVITES + "/{invite_id}",
                self.withdraw,
                "Withdraw an invite",
                statuses=(204,),
                errors=_REFUSED,
            ),
        ]

    def _ways_out(self) -> list[Route]:
        return [
            Route(
                "PUT",
                _BAN,
                self.ban,
                "Ban a person, for ever or until a time",
                body=BanBody,
                is_body_optional=True,
                statuses=(204,),
                errors=_REFUSED,
            ),
            Route("DELETE", _BAN, self.unban, "End a ban", statuses=(204,), errors=_REFUSED),
        ]

    async def directory(self, request: Request) -> Reply:
        query: DirectoryQuery = request.query
        found, cursor = await self._joining.listed(query.query, query.cursor or "", min(query.limit, PAGE_MAX))
        listed = [ListedBody(one.conversation_id, one.kind, one.name, one.avatar_url) for one in found]
        return Reply(200, DirectoryBody(listed, cursor))

    async def join(self, request: Request) -> Reply:
        await pay_create(self._limiter, request)
        await self._joining.join(request.user_id, request.id())
        return Reply(200, JoinedBody(request.id()))

    async def use(self, request: Request) -> Reply:
        await pay_create(self._limiter, request)
        return Reply(200, JoinedBody(await self._joining.use(request.user_id, request.params[0])))

    async def invite(self, request: Request) -> Reply:
        asked: NewInvite = request.body
        await pay_create(self._limiter, request)
        invite, made = await self._joining.invite(
            request.user_id, request.id(), expires_s=asked.expires_s, uses=asked.uses, role=asked.role
        )
        return Reply(201, InviteMadeBody(invite, f"/#invite={invite}", made.invite_id))

    async def invites(self, request: Request) -> Reply:
        found = await self._joining.invites(request.user_id, request.id())
        return Reply(200, InvitesBody([_body(one) for one in found]))

    async def withdraw(self, request: Request) -> Reply:
        await self._joining.withdraw(request.user_id, request.id(), request.params[1])
        return Reply(204)

    async def ban(self, request: Request) -> Reply:
        asked: BanBody = request.body
        await self._bans.put(request.user_id, request.id(), request.id(1), asked.until)
        return Reply(204)

    async def unban(self, request: Request) -> Reply:
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
