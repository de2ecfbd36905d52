"""Routes of reactions: set one, take it away, and who reacted."""

from __future__ import annotations

from tidings.gateway.encode import reacted_of
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.reactions.reactions import ReactionSends
from tidings.messaging.reactions.reactors import Reactors
from tidings.protocol.client_frames import check_reaction_key
from tidings.protocol.own_bodies import MoreQuery, ReactedBody, ReactionsBody, ReactorsBody

_REACTIONS = "/v1/conversations/{conversation_id}/messages/{seq}/reactions"
_REACTION = _REACTIONS + "/{key}"
_REFUSED = ("not_found", "forbidden", "too_large", "rate_limited")


class ReactionRoutes(Routes):
    def __init__(self, reactions: ReactionSends, reactors: Reactors, limiter: Limiter) -> None:
        self._reactions = reactions
        self._reactors = reactors
        self._limiter = limiter

    @route("PUT", _REACTION, answer=ReactedBody, errors=_REFUSED)
    async def react(self, request: Request) -> Reply:
        """React to a message; a second time changes nothing."""
        return await self._set(request, is_on=True)

    @route("DELETE", _REACTION, answer=ReactedBody, errors=_REFUSED)
    async def unreact(self, request: Request) -> Reply:
        """Remove a reaction."""
        return await self._set(request, is_on=False)

    async def _set(self, request: Request, *, is_on: bool) -> Reply:
        conversation_id, seq_no, key = request.id(), request.seq(), request.params[2]
        check_reaction_key(key)
        if request.caller.role is None:  # the team's own server is trusted
            await self._limiter.admit("reaction", request.user_id)
        beside = await self._reactions.react(request.user_id, conversation_id, seq_no, key, is_on=is_on)
        return Reply(200, reacted_of(conversation_id, seq_no, beside))

    @route("GET", _REACTIONS, query=MoreQuery, answer=ReactionsBody, errors=("not_found", "bad_cursor"))
    async def reactors(self, request: Request) -> Reply:
        """List the users who reacted to a message."""
        found, cursor = await self._reactors.page(
            request.user_id, request.id(), request.seq(), cursor=request.query.cursor
        )
        return Reply(200, ReactionsBody([ReactorsBody(key, users) for key, users in found.items()], cursor))
