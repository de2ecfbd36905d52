"""Routes of saved messages."""

from __future__ import annotations

from tidings.gateway.encode import message_of
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.messaging.reading.saved import Saved
from tidings.protocol.own_bodies import MoreQuery, SavedBody, SavedListBody

_ALL = "/v1/saved"
_ONE = _ALL + "/{conversation_id}/{seq}"


class SavedRoutes(Routes):
    def __init__(self, saved: Saved) -> None:
        self._saved = saved

    @route("GET", _ALL, query=MoreQuery, answer=SavedListBody, errors=("bad_cursor",))
    async def page(self, request: Request) -> Reply:
        """List the caller's saved messages, the latest saved first."""
        found, cursor = await self._saved.page(request.user_id, request.query.cursor)
        shown = [message_of(one.entry, is_hidden=one.is_hidden, beside=one.beside) for one in found]
        bodies = [
            SavedBody(one.entry.conversation_id, one.saved_ms, message)
            for one, message in zip(found, shown, strict=True)
        ]
        return Reply(200, SavedListBody(bodies, cursor))

    @route("PUT", _ONE, statuses=(204,), errors=("not_found",))
    async def put(self, request: Request) -> Reply:
        """Save a message for oneself."""
        await self._saved.put(request.user_id, request.id(), request.seq())
        return Reply(204)

    @route("DELETE", _ONE, statuses=(204,))
    async def remove(self, request: Request) -> Reply:
        """Remove a message from the saved ones."""
        await self._saved.remove(request.user_id, request.id(), request.seq())
        return Reply(204)
