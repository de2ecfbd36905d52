"""The route of presence: which members of a shared conversation are online, and when the others were last seen.

The answer has only people who share the named conversation with the caller. Anybody else does not exist for it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tidings.bounds import ID_CHARS_MAX, PRESENCE_BURST_MAX
from tidings.errors import BadRequest
from tidings.gateway.http.routes import Reply, Request, Routes, ids_of, route
from tidings.messaging.presence.live_status import LiveStatus
from tidings.protocol.types import Id
from tidings.pushes import Presence

UserIdList = Annotated[
    str,
    Meta(
        max_length=PRESENCE_BURST_MAX * (ID_CHARS_MAX + 1),
        description="User ids with commas between them; without any: all other members.",
    ),
]


class PresenceQuery(msgspec.Struct, frozen=True):
    conversation_id: Id | None = None  # required; a query is decoded field by field, so the route checks it
    user_ids: UserIdList | None = None


class PersonBody(Presence, frozen=True, tag=False):
    pass


class PresenceBody(msgspec.Struct, frozen=True):
    """In the order asked. `last_seen` is null for a user who is online, or was never seen."""

    presence: list[PersonBody]


class PresenceRoutes(Routes):
    def __init__(self, live_status: LiveStatus) -> None:
        self._live_status = live_status

    @route("GET", "/v1/presence", query=PresenceQuery, answer=PresenceBody, errors=("not_found", "too_large"))
    async def presence(self, request: Request) -> Reply:
        """Say which members of a conversation are online."""
        query: PresenceQuery = request.query
        if query.conversation_id is None:
            raise BadRequest("`conversation_id` must name a conversation")
        found = await self._live_status.presence(request.user_id, query.conversation_id, ids_of(query.user_ids))
        return Reply(200, PresenceBody([PersonBody(one.user_id, one.online, one.last_seen) for one in found]))
