"""Routes of reports: members make them, and moderators look at them and decide. Each look is audited."""

from __future__ import annotations

from tidings.bounds import PAGE_MAX
from tidings.gateway.encode import message_of
from tidings.gateway.http.routes import Reply, Request, Route, pay_create
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.moderation.reports import Reports
from tidings.operators.audit.events import Audit
from tidings.protocol.rule_bodies import (
    NewReport,
    ReportBody,
    ReportMadeBody,
    ReportsBody,
    ReportsQuery,
    ReportVerdict,
)

_QUEUE = "/v1/admin/reports"


class ReportRoutes:
    def __init__(self, reports: Reports, audit: Audit, limiter: Limiter) -> None:
        self._reports = reports
        self._audit = audit
        self._limiter = limiter

    def routes(self) -> list[Route]:
        return [
            Route(
                "POST",
                "/v1/conversations/{conversation_id}/messages/{seq}/report",
                self.report,
                "Report a message to the moderators",
                body=NewReport,
                is_body_optional=True,
                answer=ReportMadeBody,
                statuses=(201,),
                errors=("not_found",),
            ),
            Route(
                "GET",
                _QUEUE,
                self.waiting,
                "Reports that wait, with their messages",
                "moderator",
                query=ReportsQuery,
                answer=ReportsBody,
                errors=("forbidden",),
            ),
            Route(
                "POST",
                _QUEUE + "/{report_id}",
                self.settle,
                "Decide a report",
                "moderator",
                body=ReportVerdict,
                statuses=(204,),
                errors=("forbidden", "not_found"),
            ),
        ]

    async def report(self, request: Request) -> Reply:
        asked: NewReport = request.body
        await pay_create(self._limiter, request)
        made = await self._reports.report(request.user_id, request.id(), request.seq(), asked.reason)
        return Reply(201, ReportMadeBody(made))

    async def waiting(self, request: Request) -> Reply:
        query: ReportsQuery = request.query
        limit = min(query.limit, PAGE_MAX)
        found = await self._reports.waiting(query.cursor or "", limit)
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
        return Reply(200, ReportsBody(listed, found[-1][0].report_id if len(found) == limit else None))

    async def settle(self, request: Request) -> Reply:
        asked: ReportVerdict = request.body
        by = request.caller.key_name or ""
        report = await self._reports.settle(request.params[0], asked.action, by)
        self._seen(request, f"report.{asked.action}", f"{report.conversation_id} {report.seq}")
        return Reply(204)

    def _seen(self, request: Request, action: str, detail: str) -> None:
        self._audit.acted(action, request.caller.key_name or "", detail=detail)
