"""Routes of a person's data: erase a person, ask how far that is, and export what a person wrote."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Literal

import msgspec

from tidings.errors import Forbidden, NotFound, StoreUnavailable
from tidings.gateway.fairness import PerUser
from tidings.gateway.http.routes import Chunks, Reply, Request, Route
from tidings.messaging.lifecycle.erasing import Erasing, Job
from tidings.messaging.transfer.bounds import EXPORTS_MAX, EXPORTS_PER_USER_MAX
from tidings.messaging.transfer.exporting import Exporting
from tidings.messaging.transfer.packing import to_zip
from tidings.operators.audit.events import Audit

_EVERYBODY = ""  # no user id


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


class JobRoutes:
    def __init__(self, erasing: Erasing, exporting: Exporting, audit: Audit) -> None:
        self._exports_of = PerUser(EXPORTS_PER_USER_MAX)
        self._exports = PerUser(EXPORTS_MAX)
        self._exporting = exporting
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
            Route(
                "GET",
                "/v1/users/{user_id}/export",
                self.export,
                "All that a person wrote and set, as a zip of JSON lines: one's own, or any with an admin key",
                "profile",
                errors=("forbidden", "not_found", "unavailable"),
            ),
        ]

    async def erase(self, request: Request) -> Reply:
        job = await self._erasing.begin(request.id(), request.query.texts)
        self._audit.acted("user.erase", request.caller.key_name or "", user_id=job.user_id, detail=job.job_id)
        return Reply(202, JobBody(job.job_id))

    async def export(self, request: Request) -> Reply:
        user_id, role = request.user(), request.caller.role
        if role is None and request.caller.user_id != user_id:
            raise NotFound()
        if role not in (None, "admin"):
            raise Forbidden("this needs an admin key")
        if not self._exports_of.enter(user_id):
            raise StoreUnavailable("an export of this person is under way")
        if not self._exports.enter(_EVERYBODY):
            self._exports_of.leave(user_id)
            raise StoreUnavailable("too many exports are under way on this node")
        self._audit.acted("user.export", request.caller.key_name or user_id, user_id=user_id)
        pieces = self._exporting.user(user_id, is_everywhere=role is not None)
        named = (b"content-disposition", b'attachment; filename="export.zip"')
        return Reply(200, Chunks(None, self._counted(user_id, to_zip(pieces))), b"application/zip", (named,))

    async def _counted(self, user_id: str, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            self._exports_of.leave(user_id)
            self._exports.leave(_EVERYBODY)

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
        files=job.files,
        reactions=job.reactions,
        groups=job.groups,
        devices=job.devices,
        records=job.records,
        remains=job.remains,
    )
