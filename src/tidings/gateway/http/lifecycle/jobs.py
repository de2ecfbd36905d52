"""Routes of a person's data: erase a person, ask how far that is, and export what a person wrote."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidings.gateway.fairness import UnderWay
from tidings.gateway.http.routes import Chunks, Reply, Request, Routes, route
from tidings.messaging.lifecycle.erasing import Erasing, Job
from tidings.messaging.transfer.bounds import EXPORTS_MAX, EXPORTS_PER_USER_MAX
from tidings.messaging.transfer.exporting import Exporting
from tidings.messaging.transfer.packing import to_zip
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
    files: int
    reactions: int
    groups: int
    devices: int
    records: int
    remains: tuple[str, ...]


class JobRoutes(Routes):
    def __init__(self, erasing: Erasing, exporting: Exporting, audit: Audit) -> None:
        self._exports = UnderWay("exports", EXPORTS_PER_USER_MAX, EXPORTS_MAX)
        self._exporting = exporting
        self._erasing = erasing
        self._audit = audit

    @route(
        "DELETE",
        "/v1/users/{user_id}",
        "server",
        query=EraseQuery,
        answer=JobBody,
        statuses=(202,),
        errors=("forbidden",),
    )
    async def erase(self, request: Request) -> Reply:
        """Erase a person; `texts=keep` leaves what they wrote."""
        job = await self._erasing.begin(request.id(), request.query.texts)
        self._audit.acted("user.erase", request.caller.key_name or "", user_id=job.user_id, detail=job.job_id)
        return Reply(202, JobBody(job.job_id))

    @route(
        "GET",
        "/v1/users/{user_id}/export",
        "profile",
        errors=("forbidden", "not_found", "unavailable"),
        is_admitted_first=True,
    )
    async def export(self, request: Request) -> Reply:
        """Export all that a person wrote and set, as a zip: one's own data, or any with a server key.

        Only an admin key reads more than the person may: also where they left. An export takes a place, and only its
        reader gives the place back: so a refused one must not begin."""
        user_id = request.subject()
        self._exports.enter(user_id)
        self._audit.acted("user.export", request.caller.key_name or user_id, user_id=user_id)
        pieces = self._exporting.user(user_id, is_everywhere=request.caller.role == "admin")
        named = (b"content-disposition", b'attachment; filename="export.zip"')
        return Reply(200, Chunks(None, self._exports.until_end(user_id, to_zip(pieces))), b"application/zip", (named,))

    @route("GET", "/v1/jobs/{job_id}", "server", answer=JobStateBody, errors=("forbidden", "not_found"))
    async def state(self, request: Request) -> Reply:
        """Show the progress of an erasure and, at its end, the certificate."""
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
        files=job.files,
        reactions=job.reactions,
        groups=job.groups,
        devices=job.devices,
        records=job.records,
        remains=job.remains,
    )
