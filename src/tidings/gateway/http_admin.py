"""Routes under /v1/admin that look: what the admin page shows. Any API key may look; a user's token gets nowhere.

They answer counts, ids and reasons, never what people wrote. http_admin_actions.py has those that do something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from tidings.bounds import ADMIN_MINUTES_MAX
from tidings.gateway.routes import Reply, Request, Route
from tidings.messaging.audit_read import AuditEntry
from tidings.messaging.condition import ColdView, Days, PushView, RejectsView
from tidings.messaging.lookup import ConversationView, UserView
from tidings.messaging.samples import STEP_MS, Figures, Sample, figures_of, points
from tidings.messaging.verify import Report as UnreadReport

_ERRORS = ("forbidden",)


# --- what it asks ---------------------------------------------------------------------------------


class Samples(Protocol):
    async def read(self, since_ms: int = 0) -> Mapping[str, Sequence[Sample]]: ...


class Lookup(Protocol):
    async def user(self, user_id: str, cursor: str | None) -> UserView: ...
    async def verify(self, user_id: str) -> UnreadReport: ...
    async def conversation(self, conversation_id: str) -> ConversationView: ...


class Condition(Protocol):
    async def rejects(self, minutes: int) -> RejectsView: ...
    async def audit(self) -> list[AuditEntry]: ...
    async def push(self) -> PushView: ...
    async def days(self) -> Days: ...
    async def cold(self) -> ColdView: ...


class Setting(msgspec.Struct, frozen=True):
    """Secrets are masked."""

    path: str
    value: str | int | bool | None
    source: str
    about: str


class Check(msgspec.Struct, frozen=True):
    """One finding of doctor."""

    name: str
    level: str
    says: str
    fix: str = ""
    where: str = ""


class DoctorView(msgspec.Struct, frozen=True):
    """`keyspace`: what the keys of each server are made of."""

    at_ms: int
    is_healthy: bool
    findings: list[Check]
    keyspace: list[dict[str, Any]]


class Host(Protocol):
    """The node that answers."""

    @property
    def node_id(self) -> str: ...
    @property
    def is_dev(self) -> bool: ...
    def settings(self) -> list[Setting]: ...
    async def doctor(self) -> DoctorView: ...


# --- what it answers ------------------------------------------------------------------------------


class SinceQuery(msgspec.Struct, frozen=True):
    since: Annotated[int, Meta(ge=0, le=2**53)] = 0


class MinutesQuery(msgspec.Struct, frozen=True):
    minutes: Annotated[int, Meta(ge=1, le=ADMIN_MINUTES_MAX)] = 60


class CursorQuery(msgspec.Struct, frozen=True):
    cursor: str | None = None


class OperatorBody(msgspec.Struct, frozen=True):
    """Who is signed in, and to which node."""

    name: str
    role: str
    node_id: str
    is_dev: bool


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node with a live lease. `figures` None: it has not said anything lately."""

    node_id: str
    is_here: bool
    version: str | None
    started_at: int | None
    seen_at: int | None
    connections: int
    users: int
    is_draining: bool
    memory_bytes: int
    figures: Figures | None


class OverviewBody(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of all nodes together after `since`, one per `step_ms`; and what was counted since the nodes began."""

    step_ms: int
    points: list[Figures]
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


class AdminRoutes:
    """`edges_s`: the upper edges of the buckets that samples hold."""

    def __init__(
        self, samples: Samples, lookup: Lookup, condition: Condition, host: Host, edges_s: Sequence[float]
    ) -> None:
        self._samples = samples
        self._lookup = lookup
        self._condition = condition
        self._host = host
        self._edges_s = edges_s

    def routes(self) -> list[Route]:
        return [
            _look("me", self.me, "Whose key this is", OperatorBody),
            _look("overview", self.overview, "Nodes and their figures over the last minutes", OverviewBody, SinceQuery),
            _look("activity", self.activity, "How many users each of the last days had", Days),
            _look("users/{user_id}", self.user, "A user: devices, connections, unread", UserView, CursorQuery),
            _look("users/{user_id}/verify", self.verify, "Recount a user's unread from the tables", UnreadReport),
            _look(
                "conversations/{conversation_id}",
                self.conversation,
                "A conversation: members, ticks, archive; no text",
                ConversationView,
                errors=("not_found",),
            ),
            _look("rejects", self.rejects, "Who was refused, by class and minute", RejectsView, MinutesQuery),
            _look("audit", self.audit, "The newest audit entries", AuditBody),
            _look("push", self.push, "The push queue and what was given up", PushView),
            _look("cold", self.cold, "The cold tier: lists all its objects", ColdView),
            _look("settings", self.settings, "Every setting and where it came from", SettingsBody),
            _look("doctor", self.doctor, "Run all checks now: one run at a time", DoctorView),
        ]

    async def me(self, request: Request) -> Reply:
        caller = request.caller
        return Reply(200, OperatorBody(caller.key_name or "", caller.role or "", self._host.node_id, self._host.is_dev))

    async def overview(self, request: Request) -> Reply:
        asked: SinceQuery = request.query
        found = await self._samples.read(asked.since)
        newest = [samples[-1] for samples in found.values() if samples]
        return Reply(
            200,
            OverviewBody(
                step_ms=STEP_MS,
                points=points(found, self._edges_s, asked.since),
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
            is_here=node_id == self._host.node_id,
            version=now.version if now else None,
            started_at=now.started_ms if now else None,
            seen_at=now.at_ms if now else None,
            connections=now.connections if now else 0,
            users=now.users if now else 0,
            is_draining=now.is_draining if now else False,
            memory_bytes=now.memory_bytes if now else 0,
            figures=figures_of(pairs, self._edges_s, pairs[0][1].at_ms) if pairs else None,
        )

    async def activity(self, request: Request) -> Reply:
        return Reply(200, await self._condition.days())

    async def user(self, request: Request) -> Reply:
        asked: CursorQuery = request.query
        return Reply(200, await self._lookup.user(request.id(), asked.cursor))

    async def verify(self, request: Request) -> Reply:
        return Reply(200, await self._lookup.verify(request.id()))

    async def conversation(self, request: Request) -> Reply:
        return Reply(200, await self._lookup.conversation(request.id()))

    async def rejects(self, request: Request) -> Reply:
        asked: MinutesQuery = request.query
        return Reply(200, await self._condition.rejects(asked.minutes))

    async def audit(self, request: Request) -> Reply:
        return Reply(200, AuditBody(await self._condition.audit()))

    async def push(self, request: Request) -> Reply:
        return Reply(200, await self._condition.push())

    async def cold(self, request: Request) -> Reply:
        return Reply(200, await self._condition.cold())

    async def settings(self, request: Request) -> Reply:
        return Reply(200, SettingsBody(self._host.node_id, self._host.settings()))

    async def doctor(self, request: Request) -> Reply:
        return Reply(200, await self._host.doctor())


def _look(
    path: str,
    run: Any,
    about: str,
    answer: type[msgspec.Struct],
    query: type[msgspec.Struct] | None = None,
    errors: tuple[str, ...] = (),
) -> Route:
    return Route(
        "GET", f"/v1/admin/{path}", run, about, "operator", query=query, answer=answer, errors=(*_ERRORS, *errors)
    )


def _sums(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            sums[name] = sums.get(name, 0) + count
    return sums
