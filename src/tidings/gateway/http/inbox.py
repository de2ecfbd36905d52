"""Routes of a user's own overview: inbox, flags, totals, budgets."""

from __future__ import annotations

from tidings.bounds import PAGE_MAX
from tidings.gateway.encode import inbox_of, inbox_row_of, rate_limits_of
from tidings.gateway.http.routes import Reply, Request, Route
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.reading.inbox import Inbox
from tidings.messaging.unread.unread import Unread
from tidings.protocol.bodies import (
    FlagsBody,
    InboxBody,
    InboxQuery,
    InboxRowBody,
    RateLimitsBody,
    TotalsBody,
)


class InboxRoutes:
    def __init__(self, inbox: Inbox, unread: Unread, limiter: Limiter) -> None:
        self._inbox = inbox
        self._unread = unread
        self._limiter = limiter

    def routes(self) -> list[Route]:
        return [
            Route(
                "GET",
                "/v1/inbox",
                self.page,
                "The conversations of the caller, the latest message first",
                query=InboxQuery,
                answer=InboxBody,
                errors=("bad_cursor",),
            ),
            Route(
                "PATCH",
                "/v1/inbox/{conversation_id}",
                self.flag,
                "Mute, pin or archive a conversation for oneself",
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
        page = await self._inbox.page(request.user_id, limit=min(query.limit, PAGE_MAX), cursor=query.cursor)
        return Reply(200, inbox_of(page))

    async def flag(self, request: Request) -> Reply:
        flags: FlagsBody = request.body
        item = await self._inbox.flag(
            request.user_id, request.id(), muted=flags.muted, pinned=flags.pinned, archived=flags.archived
        )
        return Reply(200, inbox_row_of(item))

    async def totals(self, request: Request) -> Reply:
        return Reply(200, await self._unread.totals(request.user_id))

    async def budgets(self, request: Request) -> Reply:
        """The budgets of the user, or the own ones of a server that acts for nobody."""
        return Reply(200, rate_limits_of(await self._limiter.budgets(request.caller.budget_id)))
