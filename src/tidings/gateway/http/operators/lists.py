"""Routes by which an operator looks through users, conversations and the traffic of a day. No answer has a text."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tidings.clock import Clock
from tidings.gateway.http.routes import Reply, Request, Route
from tidings.operators.listing import ListedConversations, ListedUsers, Listing
from tidings.operators.traffic import Traffic, TrafficDay


class ListQuery(msgspec.Struct, frozen=True):
    """`query`: a part of an id or name; without it all of them."""

    query: Annotated[str, Meta(max_length=128)] = ""
    cursor: Annotated[str, Meta(max_length=1_024)] | None = None


class ListRoutes:
    def __init__(self, listing: Listing, traffic: Traffic, clock: Clock) -> None:
        self._listing = listing
        self._traffic = traffic
        self._clock = clock

    def routes(self) -> list[Route]:
        errors = ("forbidden", "bad_cursor")
        return [
            Route(
                "GET",
                "/v1/admin/users",
                self.users,
                "Users by a part of their id or name",
                "operator",
                query=ListQuery,
                answer=ListedUsers,
                errors=errors,
            ),
            Route(
                "GET",
                "/v1/admin/conversations",
                self.conversations,
                "Conversations by a part of their id or name",
                "operator",
                query=ListQuery,
                answer=ListedConversations,
                errors=errors,
            ),
            Route(
                "GET",
                "/v1/admin/traffic",
                self.traffic,
                "Messages, deliveries and connections of the last day",
                "operator",
                answer=TrafficDay,
                errors=("forbidden",),
            ),
        ]

    async def users(self, request: Request) -> Reply:
        asked: ListQuery = request.query
        return Reply(200, await self._listing.users(asked.query, asked.cursor))

    async def conversations(self, request: Request) -> Reply:
        asked: ListQuery = request.query
        return Reply(200, await self._listing.conversations(asked.query, asked.cursor))

    async def traffic(self, request: Request) -> Reply:
        return Reply(200, await self._traffic.day(self._clock.now_ms()))
