"""Routes without a caller: health, readiness, metrics, and the API's own description as documents and as a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from tidings.bounds import READY_KNOWN_S
from tidings.clock import Clock
from tidings.gateway.http.routes import Reply, Request, Route, Routes, route
from tidings.tasks import SingleFlight


class HealthBody(msgspec.Struct, frozen=True):
    status: Literal["ok"]


METRICS_PATH = "/metrics"

Readiness = Callable[[], Awaitable[dict[str, str]]]
MetricsPage = Callable[[], Awaitable[tuple[bytes, str]]]
WorkerStates = Callable[[], Awaitable[dict[str, str]]]


class PageRoutes(Routes):
    def __init__(
        self,
        readiness: Readiness,
        is_draining: Callable[[], bool],
        metrics_page: MetricsPage,
        clock: Clock,
        worker_states: WorkerStates | None = None,
    ) -> None:
        """`worker_states`: the state of each worker of this port, where there are several."""
        self._worker_states = worker_states
        self._ask_stores = SingleFlight(readiness)
        self._clock = clock
        self._stores: dict[str, str] = {}
        self._asked_s: float | None = None
        self._is_draining = is_draining
        self._metrics_page = metrics_page
        self._documents: dict[str, bytes] = {}

    def metrics_route(self) -> Route:
        """The route of the metrics, which may also be alone on a port of its own."""
        return next(one for one in self.routes() if one.path == METRICS_PATH)

    def publish(self, openapi: dict[str, Any], asyncapi: dict[str, Any], page: bytes) -> None:
        """Take the documents. They describe all routes, also these, so they are made last."""
        self._documents = {
            "openapi": msgspec.json.encode(openapi),
            "asyncapi": msgspec.json.encode(asyncapi),
            "docs": page,
        }

    @route("GET", "/healthz", "open", answer=HealthBody)
    async def healthz(self, request: Request) -> Reply:
        """Say that the process answers."""
        return Reply(200, HealthBody("ok"))

    @route("GET", "/readyz", "open", statuses=(200, 503))
    async def readyz(self, request: Request) -> Reply:
        """Show the state of each store; 503 when the tables are down or the node drains.

        One ready worker is enough: the kernel gives it the new connections."""
        body: dict[str, Any] = dict(await self._store_states())
        states = await self._worker_states() if self._worker_states is not None else {}
        is_draining = self._is_draining() and "ready" not in states.values()
        is_ready = body.get("tables") == "up" and not is_draining
        status = "ready" if is_ready else "draining" if is_draining else "down"
        workers = {"workers": states} if states else {}
        return Reply(200 if is_ready else 503, msgspec.json.encode({"status": status, **body, **workers}))

    async def _store_states(self) -> dict[str, str]:
        """The state of each store, at most READY_KNOWN_S old: anybody may ask, and each question costs the tables."""
        now_s = self._clock.monotonic_s()
        if self._asked_s is None or now_s - self._asked_s > READY_KNOWN_S:
            self._stores = await self._ask_stores()
            self._asked_s = now_s
        return self._stores

    @route("GET", METRICS_PATH, "open")
    async def metrics(self, request: Request) -> Reply:
        """Print the metrics for Prometheus."""
        page, content_type = await self._metrics_page()
        return Reply(200, page, content_type.encode())

    @route("GET", "/openapi.json", "open")
    async def document(self, request: Request) -> Reply:
        """Describe the REST API, as OpenAPI."""
        return Reply(200, self._documents["openapi"])

    @route("GET", "/asyncapi.json", "open")
    async def document_of_frames(self, request: Request) -> Reply:
        """Describe the WebSocket, as AsyncAPI."""
        return Reply(200, self._documents["asyncapi"])

    @route("GET", "/docs", "open")
    async def docs(self, request: Request) -> Reply:
        """Show both descriptions as a page."""
        return Reply(200, self._documents["docs"], b"text/html; charset=utf-8")
