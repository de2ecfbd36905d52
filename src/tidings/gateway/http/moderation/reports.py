"""Routes of reports: members make them, and moderators look at them and decide. Each look is audited."""

from __future__ import annotations

from tidings.bounds import PAGE_MAX
from tidings.cursors import cursor_of, place_at
from tidings.gateway.encode import message_of
from tidings.gateway.http.routes import Reply, Request, Routes, pay_create, route
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.moderation.reports import Reports
from tidings.operators.audit.events import Audit
from tidings.protocol.rule_bodies import NewReport, ReportBody, ReportMadeBody, ReportsBody, ReportsQuery, ReportVerdict

_QUEUE = "/v1/admin/reports"


class ReportRoutes(Routes):
    def __init__(self, reports: Reports, audit: Audit, limiter: Limiter) -> None:
        self._reports = reports
        self._audit = audit
        self._limiter = limiter

    @route(
        "POST",
        "/v1/conversations/{conversation_id}/messages/{seq}/report",
        body=NewReport,
        is_body_optional=True,
        answer=ReportMadeBody,
        statuses=(201,),
        errors=("not_found",),
    )
    async def report(self, request: Request) -> Reply:
        """Report a message to the moderators."""
        asked: NewReport = request.body
        await pay_create(self._limiter, request)
        made = await self._reports.report(request.user_id, request.id(), request.seq(), asked.reason)
        return Reply(201, ReportMadeBody(made))

    @route("GET", _QUEUE, "moderator", query=ReportsQuery, answer=ReportsBody, errors=("forbidden", "bad_cursor"))
    async def waiting(self, request: Request) -> Reply:
        """List the reports that wait, with their messages."""
        query: ReportsQuery = request.query
        limit = min(query.limit, PAGE_MAX)
        found = await self._reports.waiting(place_at(query.cursor, str) if query.cursor else "", limit)
        for report, _ in found:
            self._seen(request, "report.read", f"{report.conversation_id} {report.seq}")
        listed = [
            ReportBody(
                one.report_id,
                one.conversation_id,
                one.seq,
                one.by,
                one.reason,
                one.at,
                None if entry is None else message_of(entry),
            )
            for one, entry in found
        ]
        return Reply(200, ReportsBody(listed, cursor_of(found[-1][0].report_id if len(found) == limit else None)))

    @route(
        "POST",
        _QUEUE + "/{report_id}",
        "moderator",
        body=ReportVerdict,
        statuses=(204,),
        errors=("forbidden", "not_found"),
    )
    async def settle(self, request: Request) -> Reply:
        """Decide a report."""
        asked: ReportVerdict = request.body
        by = request.caller.key_name or ""
        report = await self._reports.settle(request.params[0], asked.action, by)
        self._seen(request, f"report.{asked.action}", f"{report.conversation_id} {report.seq}")
        return Reply(204)

    def _seen(self, request: Request, action: str, detail: str) -> None:
        self._audit.acted(action, request.caller.key_name or "", detail=detail)
