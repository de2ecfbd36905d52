"""Routes by which an operator looks through users, conversations and the traffic of a day. No answer has a text."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tidings.clock import Clock
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.operators.listing import ListedConversations, ListedUsers, Listing
from tidings.operators.traffic import Traffic, TrafficDay

_REFUSED = ("forbidden", "bad_cursor")


class ListQuery(msgspec.Struct, frozen=True):
    """`query`: a part of an id or name; without it all of them."""

    query: Annotated[str, Meta(max_length=128)] = ""
    cursor: Annotated[str, Meta(max_length=1_024)] | None = None


class ListRoutes(Routes):
    def __init__(self, listing: Listing, traffic: Traffic, clock: Clock) -> None:
        self._listing = listing
        self._traffic = traffic
        self._clock = clock

    @route("GET", "/v1/admin/users", "operator", query=ListQuery, answer=ListedUsers, errors=_REFUSED)
    async def users(self, request: Request) -> Reply:
        """Find users by a part of their id or name."""
        asked: ListQuery = request.query
        return Reply(200, await self._listing.users(asked.query, asked.cursor))

    @route("GET", "/v1/admin/conversations", "operator", query=ListQuery, answer=ListedConversations, errors=_REFUSED)
    async def conversations(self, request: Request) -> Reply:
        """Find conversations by a part of their id or name."""
        asked: ListQuery = request.query
        return Reply(200, await self._listing.conversations(asked.query, asked.cursor))

    @route("GET", "/v1/admin/traffic", "operator", answer=TrafficDay, errors=("forbidden",))
    async def traffic(self, request: Request) -> Reply:
        """Count messages, deliveries and connections of the last day."""
        return Reply(200, await self._traffic.day(self._clock.now_ms()))
