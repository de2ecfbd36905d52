"""Routes of a user's own overview: inbox, flags, totals, budgets."""

from __future__ import annotations

import msgspec

from tidings.bounds import PAGE_MAX
from tidings.errors import BadRequest
from tidings.gateway.dispatch import payment
from tidings.gateway.encode import inbox_of, inbox_row_of, rate_limits_of
from tidings.gateway.http.routes import Reply, Request, Route
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.reading.flags import FlagChange, Flags
from tidings.messaging.reading.inbox import Inbox
from tidings.messaging.unread.explain import Explain
from tidings.messaging.unread.unread import Unread
from tidings.protocol.bodies import (
    FlagsBody,
    InboxBody,
    InboxRowBody,
    RateLimitsBody,
    TotalsBody,
)
from tidings.protocol.own_bodies import ExplainQuery, ExplanationBody, InboxQuery


class ExplainRoutes:
    def __init__(self, explain: Explain, limiter: Limiter) -> None:
        self._explain = explain
        self._limiter = limiter

    def routes(self) -> list[Route]:
        return [
            Route(
                "GET",
                "/v1/unread/explain",
                self.explain,
                "Why the unread count of a conversation is what it is",
                query=ExplainQuery,
                answer=ExplanationBody,
                errors=("not_found",),
            )
        ]

    async def explain(self, request: Request) -> Reply:
        query: ExplainQuery = request.query
        if query.conversation_id is None:
            raise BadRequest("`conversation_id` is missing")
        pay = payment(self._limiter, request.user_id)
        found = await self._explain.explain(request.user_id, query.conversation_id, pay)
        return Reply(200, ExplanationBody(**msgspec.structs.asdict(found)))


class InboxRoutes:
    def __init__(self, inbox: Inbox, flags: Flags, unread: Unread, limiter: Limiter) -> None:
        self._inbox = inbox
        self._flags = flags
        self._unread = unread
        self._limiter = limiter

    def routes(self) -> list[Route]:
        return [
            Route(
                "GET",
                "/v1/inbox",
                self.page,
                "The conversations of the caller: pinned first, then the latest message first; or one filter",
                query=InboxQuery,
                answer=InboxBody,
                errors=("bad_cursor",),
            ),
            Route(
                "PATCH",
                "/v1/inbox/{conversation_id}",
                self.flag,
                "Mute, pin or archive a conversation for oneself, or choose its notifications",
                body=FlagsBody,
                answer=InboxRowBody,
                errors=("not_found",),
            ),
            Route("GET", "/v1/unread", self.totals, "The badge", answer=TotalsBody),
            Route(
                "GET", "/v1/rate_limits", self.budgets, "What is left of each budget", "profile", answer=RateLimitsBody
            ),
        ]

    async def page(self, request: Request) -> Reply:
        query: InboxQuery = request.query
        page = await self._inbox.page(
            request.user_id,
            limit=min(query.limit, PAGE_MAX),
            cursor=query.cursor,
            filter_name=query.filter,
            kind=query.kind,
        )
        return Reply(200, inbox_of(page))

    async def flag(self, request: Request) -> Reply:
        asked: FlagsBody = request.body
        change = FlagChange(
            muted=asked.muted,
            pinned=asked.pinned,
            archived=asked.archived,
            muted_until=asked.muted_until,
            notify=asked.notify,
        )
        return Reply(200, inbox_row_of(await self._flags.set(request.user_id, request.id(), change)))

    async def totals(self, request: Request) -> Reply:
        return Reply(200, await self._unread.totals(request.user_id))

    async def budgets(self, request: Request) -> Reply:
        """The budgets of the user, or the own ones of a server that acts for nobody."""
        return Reply(200, rate_limits_of(await self._limiter.budgets(request.caller.budget_id)))
