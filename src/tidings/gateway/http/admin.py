"""Routes under /v1/admin: the figures that the admin page shows, and the actions of an operator.

Any API key may read; only an admin's key may act; a user's token gets nowhere. The answers hold counts, ids and
reasons, never the text of a message. Every action is an entry of the audit stream with the key's name. Revoking is
POST /v1/users/{user_id}/revoke (users.py), because every backend uses it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tidings.clock import Clock
from tidings.config.settings import Auth
from tidings.errors import Close, NotFound
from tidings.gateway.http.routes import Method, Reply, Request, Route, Routes, route
from tidings.gateway.http.users import TokenBody
from tidings.gateway.tokens import mint_token
from tidings.messaging.archive.schedule import ArchiveStatus
from tidings.messaging.unread.verify import Report as UnreadReport
from tidings.operators.audit.events import Audit
from tidings.operators.audit.reader import AuditEntry
from tidings.operators.bounds import ADMIN_MINUTES_MAX
from tidings.operators.inspection import ConversationView, Inspection, UserView
from tidings.operators.node_samples import STEP_MS, Point, Sample, Samples, point_of, points
from tidings.operators.status import Days, PushView, RejectsView, SystemStatus
from tidings.routing.bus import Bus, Leave
from tidings.routing.router import Router
from tidings.stores.findings import Finding

TOKEN_TTL_S = 3_600  # enough to see what a user sees; another token is a click away

_USER = "/v1/admin/users/{user_id}"
_TOKEN = _USER + "/token"
_ERRORS = ("forbidden",)


# --- queries and answers --------------------------------------------------------------------------


class Setting(msgspec.Struct, frozen=True):
    """Secrets are masked."""

    path: str
    value: str | int | bool | None
    source: str
    about: str


class DoctorView(msgspec.Struct, frozen=True):
    """`keyspace`: the families of keys on each server."""

    at_ms: int
    is_healthy: bool
    findings: list[Finding]
    keyspace: list[dict[str, Any]]


class SinceQuery(msgspec.Struct, frozen=True):
    since: Annotated[int, Meta(ge=0, le=2**53)] = 0


class MinutesQuery(msgspec.Struct, frozen=True):
    minutes: Annotated[int, Meta(ge=1, le=ADMIN_MINUTES_MAX)] = 60


class CursorQuery(msgspec.Struct, frozen=True):
    cursor: str | None = None


class OperatorBody(msgspec.Struct, frozen=True):
    """The operator who is signed in, and the node that answers."""

    name: str
    role: str
    node_id: str
    is_dev: bool


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node with a live lease. `figures` is null while the node has published no samples."""

    node_id: str
    is_here: bool
    version: str | None
    started_at: int | None
    seen_at: int | None
    connections: int
    users: int
    is_draining: bool
    memory_bytes: int
    figures: Point | None


class OverviewBody(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of all nodes together after `since`, one per `step_ms`, and counts since the nodes began."""

    step_ms: int
    points: list[Point]
    nodes: list[NodeFacts]
    messages: int
    deliveries: int
    rejects: dict[str, int]
    pushes: dict[str, int]
    archive: dict[str, int]
    archive_last_at: int | None


class AuditBody(msgspec.Struct, frozen=True):
    entries: list[AuditEntry]


class SettingsBody(msgspec.Struct, frozen=True):
    node_id: str
    settings: list[Setting]


class DrainBody(msgspec.Struct, frozen=True):
    node_id: str


class KickBody(msgspec.Struct, frozen=True):
    """How many connections were live at the request."""

    user_id: str
    connections: int


# --- routes ---------------------------------------------------------------------------------------


def _view(
    path: str, answer: type[msgspec.Struct], query: type[msgspec.Struct] | None = None, errors: tuple[str, ...] = ()
) -> Callable[[Method], Method]:
    return route("GET", f"/v1/admin/{path}", "operator", query=query, answer=answer, errors=(*_ERRORS, *errors))


@dataclass(frozen=True, kw_only=True)
class AdminRoutes(Routes):
    node_id: str
    settings: Sequence[Setting]
    doctor: Callable[[], Awaitable[DoctorView]]
    samples: Samples
    edges_s: Sequence[float]  # the upper edges of the buckets that samples hold
    lookup: Inspection
    condition: SystemStatus
    bus: Bus
    router: Router
    audit: Audit
    clock: Clock
    dev_auth: Auth | None  # None unless the node runs with --dev

    def routes(self) -> list[Route]:
        return [one for one in super().routes() if self.dev_auth is not None or one.path != _TOKEN]

    # --- views ---

    @_view("me", OperatorBody)
    async def me(self, request: Request) -> Reply:
        """Name the operator of this key."""
        caller = request.caller
        return Reply(
            200, OperatorBody(caller.key_name or "", caller.role or "", self.node_id, self.dev_auth is not None)
        )

    @_view("overview", OverviewBody, SinceQuery)
    async def overview(self, request: Request) -> Reply:
        """Show the nodes and their figures over the last minutes."""
        asked: SinceQuery = request.query
        found = await self.samples.read(asked.since)
        newest = [samples[-1] for samples in found.values() if samples]
        return Reply(
            200,
            OverviewBody(
                step_ms=STEP_MS,
                points=points(found, self.edges_s, asked.since),
                nodes=[self._node(node_id, samples) for node_id, samples in found.items()],
                messages=sum(sample.messages for sample in newest),
                deliveries=sum(sample.deliveries for sample in newest),
                rejects=_sums([sample.rejects for sample in newest]),
                pushes=_sums([sample.pushes for sample in newest]),
                archive=_sums([sample.archive for sample in newest]),
                archive_last_at=max((sample.archive_last_ms for sample in newest), default=0) or None,
            ),
        )

    def _node(self, node_id: str, samples: Sequence[Sample]) -> NodeFacts:
        now = samples[-1] if samples else None
        pairs = [(samples[-2], samples[-1])] if len(samples) > 1 else []
        return NodeFacts(
            node_id=node_id,
            is_here=node_id == self.node_id,
            version=now.version if now else None,
            started_at=now.started_ms if now else None,
            seen_at=now.at_ms if now else None,
            connections=now.connections if now else 0,
            users=now.users if now else 0,
            is_draining=now.is_draining if now else False,
            memory_bytes=now.memory_bytes if now else 0,
            figures=point_of(pairs, self.edges_s, pairs[0][1].at_ms) if pairs else None,
        )

    @_view("activity", Days)
    async def activity(self, request: Request) -> Reply:
        """Count the active users of each of the last days."""
        return Reply(200, await self.condition.days())

    @_view("users/{user_id}", UserView, CursorQuery)
    async def user(self, request: Request) -> Reply:
        """Show devices, connections and unread counts of a user."""
        asked: CursorQuery = request.query
        return Reply(200, await self.lookup.user(request.user(), asked.cursor))

    @_view("users/{user_id}/verify", UnreadReport)
    async def verify(self, request: Request) -> Reply:
        """Recount a user's unread from the tables."""
        return Reply(200, await self.lookup.verify(request.user()))

    @_view("conversations/{conversation_id}", ConversationView, CursorQuery, errors=("not_found",))
    async def conversation(self, request: Request) -> Reply:
        """Show members, receipts and archive of a conversation, without texts."""
        asked: CursorQuery = request.query
        return Reply(200, await self.lookup.conversation(request.id(), asked.cursor))

    @_view("rejects", RejectsView, MinutesQuery)
    async def rejects(self, request: Request) -> Reply:
        """List refused users, by class and minute."""
        asked: MinutesQuery = request.query
        return Reply(200, await self.condition.rejects(asked.minutes))

    @_view("audit", AuditBody)
    async def audit_entries(self, request: Request) -> Reply:
        """List the newest audit entries."""
        return Reply(200, AuditBody(await self.condition.audit()))

    @_view("push", PushView)
    async def push(self, request: Request) -> Reply:
        """Show the push queue, and the notifications that were given up."""
        return Reply(200, await self.condition.push())

    @_view("cold", ArchiveStatus)
    async def cold(self, request: Request) -> Reply:
        """Show the state of the cold tier; this lists all its objects."""
        return Reply(200, await self.condition.cold())

    @_view("settings", SettingsBody)
    async def all_settings(self, request: Request) -> Reply:
        """List every setting, its value and its source."""
        return Reply(200, SettingsBody(self.node_id, list(self.settings)))

    @_view("doctor", DoctorView)
    async def examination(self, request: Request) -> Reply:
        """Run all checks now: one run at a time."""
        return Reply(200, await self.doctor())

    # --- actions ---

    @route(
        "POST",
        "/v1/admin/nodes/{node_id}/drain",
        "server",
        answer=DrainBody,
        statuses=(202,),
        errors=("forbidden", "not_found"),
    )
    async def drain(self, request: Request) -> Reply:
        """The node drains and exits, as on SIGTERM."""
        node_id = request.id()
        if not await self.bus.publish_now(node_id, Leave()):
            raise NotFound("no node of this id listens")
        self._record(request, "node.drain", detail=node_id)
        return Reply(202, DrainBody(node_id))

    @route("POST", _USER + "/kick", "server", answer=KickBody, errors=_ERRORS)
    async def kick(self, request: Request) -> Reply:
        """Close every connection of a user; clients come back."""
        user_id = request.user()
        live = len(await self.lookup.connections(user_id))
        self.router.close(user_id, Close.KICKED)
        self._record(request, "user.kick", user_id, f"{live} connections")
        return Reply(200, KickBody(user_id, live))

    @route("POST", _TOKEN, "server", answer=TokenBody, errors=_ERRORS)
    async def token(self, request: Request) -> Reply:
        """Make a token of this user for an hour: only with --dev."""
        assert self.dev_auth is not None
        user_id = request.user()
        token = mint_token(self.dev_auth, user_id, ttl_s=TOKEN_TTL_S, now_ms=self.clock.now_ms())
        self._record(request, "user.token", user_id)
        return Reply(200, TokenBody(token))

    def _record(self, request: Request, action: str, user_id: str = "-", detail: str = "") -> None:
        self.audit.acted(action, request.caller.key_name or "", user_id=user_id, detail=detail)


def _sums(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            sums[name] = sums.get(name, 0) + count
    return sums
