"""Routes under /v1/admin that do something: drain a node, close a user's sockets, make a token while trying things out.

Only an admin's API key gets here, and everything done is an entry of the audit stream with the key's name. Revoking is
POST /v1/users/{user_id}/revoke (http_accounts.py), which any backend uses and which is audited too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidings.clock import Clock
from tidings.errors import Close, NotFound
from tidings.gateway.auth import AuthSettings
from tidings.gateway.bodies import TokenBody
from tidings.gateway.routes import Reply, Request, Route
from tidings.gateway.usecases import Audit, Router

TOKEN_TTL_S = 3_600  # for a look at what a user sees; another one is a click away


class Nodes(Protocol):
    async def leave(self, node_id: str) -> bool:
        """Asks the node to drain and go, as on SIGTERM. False: nobody of this name listens."""
        ...


class Presence(Protocol):
    async def connections(self, user_id: str) -> Sequence[object]:
        """Live ones, on every node."""
        ...


class DrainBody(msgspec.Struct, frozen=True):
    node_id: str


class KickBody(msgspec.Struct, frozen=True):
    """How many connections were live when it was asked."""

    user_id: str
    connections: int


class AdminActionRoutes:
    """`dev_auth` is None unless the node runs with --dev."""

    def __init__(
        self,
        nodes: Nodes,
        router: Router,
        presence: Presence,
        audit: Audit,
        clock: Clock,
        dev_auth: AuthSettings | None,
    ) -> None:
        self._nodes = nodes
        self._router = router
        self._presence = presence
        self._audit = audit
        self._clock = clock
        self._dev_auth = dev_auth

    def routes(self) -> list[Route]:
        one = "/v1/admin/users/{user_id}"
        refusals = ("forbidden",)
        routes = [
            Route(
                "POST",
                "/v1/admin/nodes/{node_id}/drain",
                self.drain,
                "The node drains and exits, as on SIGTERM",
                "server",
                answer=DrainBody,
                statuses=(202,),
                errors=("forbidden", "not_found"),
            ),
            Route(
                "POST",
                one + "/kick",
                self.kick,
                "Close every connection of a user; clients come back",
                "server",
                answer=KickBody,
                errors=refusals,
            ),
        ]
        if self._dev_auth is not None:
            about = "A token of this user for an hour: only with --dev"
            routes.append(Route("POST", one + "/token", self.token, about, "server", answer=TokenBody, errors=refusals))
        return routes

    async def drain(self, request: Request) -> Reply:
        node_id = request.id()
        if not await self._nodes.leave(node_id):
            raise NotFound("no such node")
        self._note(request, "node.drain", detail=node_id)
        return Reply(202, DrainBody(node_id))

    async def kick(self, request: Request) -> Reply:
        user_id = request.id()
        live = len(await self._presence.connections(user_id))
        self._router.close(user_id, Close.KICKED)
        self._note(request, "user.kick", user_id, f"{live} connections")
        return Reply(200, KickBody(user_id, live))

    async def token(self, request: Request) -> Reply:
        assert self._dev_auth is not None
        user_id = request.id()
        token = self._dev_auth.mint(user_id, ttl_s=TOKEN_TTL_S, now_ms=self._clock.now_ms())
        self._note(request, "user.token", user_id)
        return Reply(200, TokenBody(token))

    def _note(self, request: Request, action: str, user_id: str = "-", detail: str = "") -> None:
        self._audit.acted(action, request.caller.key_name or "", user_id=user_id, detail=detail)
