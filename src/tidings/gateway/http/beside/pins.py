"""Routes of pins: set one, take it away, and the pinned messages of a conversation."""

from __future__ import annotations

from tidings.gateway.encode import message_of, reacted_of
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.messaging.limits.limiter import Limiter
from tidings.messaging.reactions.pins import Pins
from tidings.protocol.own_bodies import PinBody, PinsBody, ReactedBody

_PIN = "/v1/conversations/{conversation_id}/messages/{seq}/pin"
_REFUSED = ("not_found", "forbidden", "too_large", "rate_limited")


class PinRoutes(Routes):
    def __init__(self, pins: Pins, limiter: Limiter) -> None:
        self._pins = pins
        self._limiter = limiter

    @route("PUT", _PIN, answer=ReactedBody, errors=_REFUSED)
    async def pin(self, request: Request) -> Reply:
        """Pin a message for everybody."""
        return await self._set(request, is_on=True)

    @route("DELETE", _PIN, answer=ReactedBody, errors=_REFUSED)
    async def unpin(self, request: Request) -> Reply:
        """Remove a pin."""
        return await self._set(request, is_on=False)

    async def _set(self, request: Request, *, is_on: bool) -> Reply:
        if request.caller.role is None:  # the team's own server is trusted
            await self._limiter.admit("reaction", request.user_id)
        beside = await self._pins.set(request.user_id, request.id(), request.seq(), is_on=is_on)
        return Reply(200, reacted_of(request.id(), request.seq(), beside))

    @route("GET", "/v1/conversations/{conversation_id}/pins", answer=PinsBody, errors=("not_found",))
    async def all(self, request: Request) -> Reply:
        """List the pinned messages, the latest pinned first."""
        found = await self._pins.all(request.user_id, request.id())
        shown = [message_of(one.entry, is_hidden=one.is_hidden, beside=one.beside) for one in found]
        bodies = [
            PinBody(one.pin.user_id, one.pin.pinned_ms, message) for one, message in zip(found, shown, strict=True)
        ]
        return Reply(200, PinsBody(bodies))
