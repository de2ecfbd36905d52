"""Routes of saved messages."""

from __future__ import annotations

from tidings.gateway.encode import message_of
from tidings.gateway.http.routes import Reply, Request, Route
from tidings.messaging.reading.saved import Saved
from tidings.protocol.beside import MoreQuery
from tidings.protocol.own_bodies import SavedBody, SavedListBody

_ALL = "/v1/saved"
_ONE = _ALL + "/{conversation_id}/{seq}"


class SavedRoutes:
    def __init__(self, saved: Saved) -> None:
        self._saved = saved

    def routes(self) -> list[Route]:
        return [
            Route(
                "GET",
                _ALL,
                self.page,
                "The caller's saved messages, the latest saved first",
                query=MoreQuery,
                answer=SavedListBody,
                errors=("bad_cursor",),
            ),
            Route("PUT", _ONE, self.put, "Save a message for oneself", statuses=(204,), errors=("not_found",)),
            Route("DELETE", _ONE, self.remove, "Take a message from the saved ones", statuses=(204,)),
        ]

    async def page(self, request: Request) -> Reply:
        found, cursor = await self._saved.page(request.user_id, request.query.cursor)
        bodies = [
            SavedBody(one.entry.conversation_id, one.saved_ms, message_of(one.entry, is_hidden=one.is_hidden))
            for one in found
        ]
        return Reply(200, SavedListBody(bodies, cursor))

    async def put(self, request: Request) -> Reply:
        await self._saved.put(request.user_id, request.id(), request.seq())
        return Reply(204)

    async def remove(self, request: Request) -> Reply:
        await self._saved.remove(request.user_id, request.id(), request.seq())
        return Reply(204)
