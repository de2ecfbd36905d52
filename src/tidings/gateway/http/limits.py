"""Routes of the exceptions to the rate limits, for the team's backend. Any API key reads them, an admin changes them.

Every change is an entry of the audit stream, with the name of the key that made it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tidings.bounds import LIMIT_COUNT_MAX, LIMIT_WINDOW_S_MAX
from tidings.errors import Forbidden
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.messaging.limits.overrides import Overrides
from tidings.operators.audit.events import Audit
from tidings.protocol.bodies import RequestBody
from tidings.stores.tables.values import Override

_ALL = "/v1/rate_limits/overrides"
_ONE = _ALL + "/{scope}/{subject}/{class}"
Count = Annotated[int, Meta(ge=0, le=LIMIT_COUNT_MAX)]
Window = Annotated[int, Meta(ge=1, le=LIMIT_WINDOW_S_MAX)]


class OverridePut(RequestBody, frozen=True):
    """`limit` null: no limit at all; 0: nothing passes."""

    limit: Count | None
    window_s: Window = 60


class OverrideBody(msgspec.Struct, frozen=True, rename={"class_name": "class"}):
    scope: str
    name: str
    class_name: str
    limit: int | None
    window_s: int
    changed_at: int


class OverridesBody(msgspec.Struct, frozen=True):
    overrides: list[OverrideBody]


class LimitRoutes(Routes):
    def __init__(self, overrides: Overrides, audit: Audit) -> None:
        self._overrides = overrides
        self._audit = audit

    @route("GET", _ALL, "profile", answer=OverridesBody, errors=("forbidden",))
    async def all(self, request: Request) -> Reply:
        """List every exception to the rate limits; for a server key."""
        if request.caller.role is None:
            raise Forbidden("this needs an API key")
        return Reply(200, OverridesBody([_body(one) for one in await self._overrides.all()]))

    @route("PUT", _ONE, "server", body=OverridePut, answer=OverrideBody, errors=("forbidden",))
    async def put(self, request: Request) -> Reply:
        """Give a user, a role or an API key another limit, from now on and on every node."""
        asked: OverridePut = request.body
        stored = await self._overrides.put(*request.params, count=asked.limit, window_s=asked.window_s)
        limit = "off" if asked.limit is None else f"{asked.limit}/{asked.window_s}s"
        self._record(request, "limits.set", limit)
        return Reply(200, _body(stored))

    @route("DELETE", _ONE, "server", statuses=(204,), errors=("forbidden", "not_found"))
    async def remove(self, request: Request) -> Reply:
        """Remove an exception; the usual limit holds again."""
        await self._overrides.remove(*request.params)
        self._record(request, "limits.clear")
        return Reply(204)

    def _record(self, request: Request, action: str, limit: str = "") -> None:
        scope, name, class_name = request.params
        detail = f"{scope} {name} {class_name} {limit}".rstrip()
        user_id = name if scope == "user" else "-"
        self._audit.acted(action, request.caller.key_name or "", user_id=user_id, detail=detail)


def _body(one: Override) -> OverrideBody:
    return OverrideBody(one.scope, one.name, one.class_name, one.count, one.window_s, one.changed_ms)
