"""Routes of pins: set one, take it away, and the pinned messages of a conversation."""

from __future__ import annotations

from tidings.gateway.encode import message_of, reacted_of
from tidings.gateway.http.routes import Reply, Request, Route
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.reactions.pins import Pins
from tidings.model import Beside
from tidings.protocol.beside import ReactedBody
from tidings.protocol.own_bodies import PinBody, PinsBody

_PIN = "/v1/conversations/{conversation_id}/messages/{seq}/pin"
_REFUSED = ("not_found", "forbidden", "too_large", "rate_limited")
_PINNED = Beside({}, is_pinned=True)


class PinRoutes:
    def __init__(self, pins: Pins, limiter: Limiter) -> None:
        self._pins = pins
        self._limiter = limiter

    def routes(self) -> list[Route]:
        return [
            Route("PUT", _PIN, self.pin, "Pin a message for everybody", answer=ReactedBody, errors=_REFUSED),
            Route("DELETE", _PIN, self.unpin, "Take a pin away", answer=ReactedBody, errors=_REFUSED),
            Route(
                "GET",
                "/v1/conversations/{conversation_id}/pins",
                self.all,
                "The pinned messages, the latest pinned first",
                answer=PinsBody,
                errors=("not_found",),
            ),
        ]

    async def pin(self, request: Request) -> Reply:
        return await self._set(request, is_on=True)

    async def unpin(self, request: Request) -> Reply:
        return await self._set(request, is_on=False)

    async def _set(self, request: Request, *, is_on: bool) -> Reply:
        if request.caller.role is None:  # the team's own server is trusted
            await self._limiter.admit("reaction", request.user_id)
        beside = await self._pins.set(request.user_id, request.id(), request.seq(), is_on=is_on)
        return Reply(200, reacted_of(request.id(), request.seq(), beside))

    async def all(self, request: Request) -> Reply:
        found = await self._pins.all(request.user_id, request.id())
        bodies = [
            PinBody(one.pin.user_id, one.pin.pinned_ms, message_of(one.entry, is_hidden=one.is_hidden, beside=_PINNED))
            for one in found
        ]
        return Reply(200, PinsBody(bodies))
