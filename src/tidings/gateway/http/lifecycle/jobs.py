"""Routes of erasures: begin one, and ask how far it is."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidings.gateway.http.routes import Reply, Request, Route
from tidings.messaging.lifecycle.erasing import Erasing, Job
from tidings.operators.audit.events import Audit


class EraseQuery(msgspec.Struct, frozen=True):
    texts: Literal["remove", "keep"] = "remove"


class JobBody(msgspec.Struct, frozen=True):
    job_id: str


class JobStateBody(msgspec.Struct, frozen=True):
    """A job with `ended_at` is the certificate of the erasure."""

    job_id: str
    state: Literal["running", "done"]
    user_id: str
    texts: Literal["remove", "keep"]
    began_at: int
    ended_at: int | None
    conversations: int
    messages: int
    devices: int
    records: int
    remains: tuple[str, ...]


class JobRoutes:
    def __init__(self, erasing: Erasing, audit: Audit) -> None:
        self._erasing = erasing
        self._audit = audit

    def routes(self) -> list[Route]:
        return [
            Route(
                "DELETE",
                "/v1/users/{user_id}",
                self.erase,
                "Erase a person; `texts=keep` leaves what they wrote",
                "server",
                query=EraseQuery,
                answer=JobBody,
                statuses=(202,),
                errors=("forbidden",),
            ),
            Route(
                "GET",
                "/v1/jobs/{job_id}",
                self.state,
                "How far an erasure is; at the end, its certificate",
                "server",
                answer=JobStateBody,
                errors=("forbidden", "not_found"),
            ),
        ]

    async def erase(self, request: Request) -> Reply:
        job = await self._erasing.begin(request.id(), request.query.texts)
        self._audit.acted("user.erase", request.caller.key_name or "", user_id=job.user_id, detail=job.job_id)
        return Reply(202, JobBody(job.job_id))

    async def state(self, request: Request) -> Reply:
        return Reply(200, state_of(await self._erasing.job(request.params[0])))


def state_of(job: Job) -> JobStateBody:
    return JobStateBody(
        job_id=job.job_id,
        state="running" if job.ended is None else "done",
        user_id=job.user_id,
        texts=job.texts,
        began_at=job.began,
        ended_at=job.ended,
        conversations=job.conversations,
        messages=job.messages,
        devices=job.devices,
        records=job.records,
        remains=job.remains,
    )
