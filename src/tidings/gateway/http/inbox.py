"""Routes of a user's own overview: inbox, flags, totals, budgets."""

from __future__ import annotations

from tidings.bounds import PAGE_MAX
from tidings.errors import BadRequest
from tidings.gateway.dispatch import payment
from tidings.gateway.encode import inbox_of, inbox_row_of, rate_limits_of
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.reading.flags import FlagChange, Flags
from tidings.messaging.reading.inbox import Inbox
from tidings.messaging.unread.explain import Explain, Explanation
from tidings.messaging.unread.unread import Unread
from tidings.protocol.bodies import FlagsBody, InboxBody, InboxRowBody, RateLimitsBody, TotalsBody
from tidings.protocol.fields import PickedInboxBody, inbox_fields, picked_inbox
from tidings.protocol.own_bodies import ExplainQuery, InboxQuery

RECORD_FIELDS = ("draft", "rules", "data")  # a page without them reads no records


class ExplainRoutes(Routes):
    def __init__(self, explain: Explain, limiter: Limiter) -> None:
        self._explain = explain
        self._limiter = limiter

    @route("GET", "/v1/unread/explain", query=ExplainQuery, answer=Explanation, errors=("not_found",))
    async def explain(self, request: Request) -> Reply:
        """Explain the unread count of a conversation."""
        query: ExplainQuery = request.query
        if query.conversation_id is None:
            raise BadRequest("`conversation_id` is missing")
        pay = payment(self._limiter, request.user_id)
        return Reply(200, await self._explain.explain(request.user_id, query.conversation_id, pay))


class InboxRoutes(Routes):
    def __init__(self, inbox: Inbox, flags: Flags, unread: Unread, limiter: Limiter) -> None:
        self._inbox = inbox
        self._flags = flags
        self._unread = unread
        self._limiter = limiter

    @route("GET", "/v1/inbox", query=InboxQuery, answer=InboxBody, picked=PickedInboxBody, errors=("bad_cursor",))
    async def page(self, request: Request) -> Reply:
        """List the caller's conversations: pinned first, then the latest message first; or those of a filter."""
        query: InboxQuery = request.query
        names = inbox_fields(query.fields)
        page = await self._inbox.page(
            request.user_id,
            limit=min(query.limit, PAGE_MAX),
            cursor=query.cursor,
            filter_name=query.filter,
            kind=query.kind,
            has_records=not names.rows or any(name in names.rows for name in RECORD_FIELDS),
        )
        return Reply(200, picked_inbox(inbox_of(page), names))

    @route("PATCH", "/v1/inbox/{conversation_id}", body=FlagsBody, answer=InboxRowBody, errors=("not_found",))
    async def flag(self, request: Request) -> Reply:
        """Mute, pin or archive a conversation for oneself, or choose its notifications."""
        asked: FlagsBody = request.body
        change = FlagChange(
            muted=asked.muted,
            pinned=asked.pinned,
            archived=asked.archived,
            muted_until=asked.muted_until,
            notify=asked.notify,
        )
        return Reply(200, inbox_row_of(await self._flags.set(request.user_id, request.id(), change)))

    @route("GET", "/v1/unread", answer=TotalsBody)
    async def totals(self, request: Request) -> Reply:
        """Show the totals for the badge."""
        return Reply(200, await self._unread.totals(request.user_id))

    @route("GET", "/v1/rate_limits", "profile", answer=RateLimitsBody)
    async def budgets(self, request: Request) -> Reply:
        """Show what is left of each budget: of the user, or of a server that acts for nobody."""
        return Reply(200, rate_limits_of(await self._limiter.budgets(request.caller.budget_id)))
