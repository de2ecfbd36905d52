"""The route of presence: who of a shared conversation is online, and when the others were last seen.

Only people who share the named conversation with the caller: anybody else does not exist. build.py makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from tidings.bounds import ID_CHARS_MAX, PRESENCE_BURST_MAX
from tidings.errors import BadRequest
from tidings.gateway.protocol import Id
from tidings.gateway.routes import Reply, Request, Route, ids_of
from tidings.model import Presence

UserIdList = Annotated[
    str,
    Meta(
        max_length=PRESENCE_BURST_MAX * (ID_CHARS_MAX + 1),
        description="User ids with commas between them; without any: all other members.",
    ),
]


class Presences(Protocol):
    async def presence(self, user_id: str, conversation_id: str, user_ids: Sequence[str]) -> list[Presence]: ...


class PresenceQuery(msgspec.Struct, frozen=True):
    conversation_id: Id | None = None  # required; a query is decoded field by field, so the route says so
    user_ids: UserIdList | None = None


class PersonBody(msgspec.Struct, frozen=True):
    user_id: str
    online: bool
    last_seen: int | None


class PresenceBody(msgspec.Struct, frozen=True):
    """In the order asked. last_seen is null for who is online, or was never seen."""

    presence: list[PersonBody]


class PresenceRoutes:
    def __init__(self, presences: Presences) -> None:
        self._presences = presences

    def routes(self) -> list[Route]:
        return [
            Route(
                "GET",
                "/v1/presence",
                self.presence,
                "Who of a conversation is online",
                query=PresenceQuery,
                answer=PresenceBody,
                errors=("not_found", "too_large"),
            )
        ]

    async def presence(self, request: Request) -> Reply:
        query: PresenceQuery = request.query
        if query.conversation_id is None:
            raise BadRequest("conversation_id says whose members are meant")
        found = await self._presences.presence(request.user_id, query.conversation_id, ids_of(query.user_ids))
        return Reply(200, PresenceBody([PersonBody(one.user_id, one.online, one.last_seen) for one in found]))
