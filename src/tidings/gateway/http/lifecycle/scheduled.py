"""Routes of scheduled messages."""

from __future__ import annotations

from tidings.errors import BadRequest
from tidings.gateway.dispatch import content_of
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.ids import is_message_id
from tidings.messaging.lifecycle.scheduled import Schedule, Scheduled
from tidings.protocol.client_frames import check_content, check_thread
from tidings.protocol.own_bodies import NewScheduled, ScheduledBody, ScheduledListBody

_ALL = "/v1/scheduled"
_ONE = _ALL + "/{message_id}"


class ScheduledRoutes(Routes):
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    @route("GET", _ALL, answer=ScheduledListBody)
    async def all(self, request: Request) -> Reply:
        """List the caller's scheduled messages, the soonest first."""
        found = await self._schedule.all(request.user_id)
        return Reply(200, ScheduledListBody([_body(one) for one in found]))

    @route("PUT", _ONE, body=NewScheduled, answer=ScheduledBody, statuses=(201, 200), errors=("not_found", "too_large"))
    async def put(self, request: Request) -> Reply:
        """Schedule a message, or replace one that waits."""
        asked: NewScheduled = request.body
        check_content(asked.text, asked.data, asked.files)
        check_thread(asked.thread_seq, also_here=asked.also_here)
        scheduled = Scheduled(asked.conversation_id, content_of(asked), asked.send_at, _message_id(request))
        is_new = await self._schedule.put(request.user_id, scheduled)
        return Reply(201 if is_new else 200, _body(scheduled))

    @route("DELETE", _ONE, statuses=(204,), errors=("not_found",))
    async def remove(self, request: Request) -> Reply:
        """Cancel a scheduled message."""
        await self._schedule.remove(request.user_id, _message_id(request))
        return Reply(204)


def _message_id(request: Request) -> str:
    (text,) = request.params
    if not is_message_id(text):
        raise BadRequest(f"`{text[:40]}` in the path is not a message_id")
    return text


def _body(one: Scheduled) -> ScheduledBody:
    said = one.content
    return ScheduledBody(
        one.message_id,
        one.conversation_id,
        one.send_at,
        said.text,
        said.data,
        said.silent,
        said.reply_to,
        tuple(file.file_id for file in said.files),
        said.ttl_s,
        said.mentions,
        said.mention,
        said.thread_seq,
        said.also_here,
        one.failed,
    )
