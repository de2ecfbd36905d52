"""Routes without a caller: health, readiness, metrics, and the API's own description as documents and as a page.

Files are read once at the start; a path names an entry of that table, never a file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

import msgspec

from tidings.errors import NotFound
from tidings.gateway.bodies import HealthBody
from tidings.gateway.docs_page import docs_page
from tidings.gateway.routes import Reply, Request, Route

CONTENT_TYPES = {
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
}

Readiness = Callable[[], Awaitable[dict[str, str]]]
MetricsPage = Callable[[], tuple[bytes, str]]


class PageRoutes:
    def __init__(self, readiness: Readiness, is_draining: Callable[[], bool], metrics_page: MetricsPage) -> None:
        self._readiness = readiness
        self._is_draining = is_draining
        self._metrics_page = metrics_page
        self._files = read_web_files()
        self._documents: dict[str, bytes] = {}

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/healthz", self.healthz, "The process answers", "open", answer=HealthBody),
            Route(
                "GET",
                "/readyz",
                self.readyz,
                "Each store by name; 503 when tables are down or the node drains",
                "open",
                statuses=(200, 503),
            ),
            Route("GET", "/metrics", self.metrics, "Prometheus metrics", "open"),
            Route("GET", "/openapi.json", self.document, "This description", "open"),
            Route("GET", "/asyncapi.json", self.document_of_frames, "The WebSocket's description", "open"),
            Route("GET", "/docs", self.docs, "This description as a page", "open"),
            Route("GET", "/assets/{name}", self.asset, "A file of the pages", "open", errors=("not_found",)),
        ]

    def publish(self, openapi: dict[str, Any], asyncapi: dict[str, Any]) -> None:
        """The documents describe all routes, these among them, so they come last."""
        self._documents = {
            "openapi": msgspec.json.encode(openapi),
            "asyncapi": msgspec.json.encode(asyncapi),
            "docs": docs_page(openapi, asyncapi),
        }

    async def healthz(self, request: Request) -> Reply:
        return Reply(200, HealthBody("ok"))

    async def readyz(self, request: Request) -> Reply:
        stores = await self._readiness()
        is_ready = stores.get("tables") == "up" and not self._is_draining()
        status = "ready" if is_ready else "draining" if self._is_draining() else "down"
        return Reply(200 if is_ready else 503, msgspec.json.encode({"status": status, **stores}))

    async def metrics(self, request: Request) -> Reply:
        page, content_type = self._metrics_page()
        return Reply(200, page, content_type.encode())

    async def document(self, request: Request) -> Reply:
        return Reply(200, self._documents["openapi"])

    async def document_of_frames(self, request: Request) -> Reply:
        return Reply(200, self._documents["asyncapi"])

    async def docs(self, request: Request) -> Reply:
        return Reply(200, self._documents["docs"], CONTENT_TYPES["html"])

    async def asset(self, request: Request) -> Reply:
        return self._file(request.params[0])

    def _file(self, name: str) -> Reply:
        content = self._files.get(name)
        if content is None:
            raise NotFound("no such file")
        return Reply(200, content, CONTENT_TYPES[name.rpartition(".")[2]])


def read_web_files() -> dict[str, bytes]:
    """The files of web/ by name; what has no known type is not served."""
    folder = files("tidings") / "web"
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.is_file() and entry.name.rpartition(".")[2] in CONTENT_TYPES
    }
