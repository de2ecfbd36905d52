"""Watch: reads the nodes again and again, compares each reading with the one before, and marks lost nodes.

A node that does not answer delays no other node; when it answers again its figures start anew. Slow commands come from
the SLOWLOG of the keyspace, and its load from INFO, if it can be reached.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx2
import msgspec

from tidings.bounds import TOP_FETCH_S, TOP_PAGE_BYTES_MAX
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.config.values import SettingsError, web_url
from tidings.operators.doctor.server_load import ServerLoad
from tidings.operators.doctor.slow_commands import SlowCommand
from tidings.operators.top.figures import Figures, Pair, figures_of
from tidings.operators.top.readings import Reading, read_page
from tidings.operators.top.servers import WatchedServers

_HOST_PORT = re.compile(r"([^/@]+@)?([^/:@]+|\[[^]]+\]):\d+(?:/|\Z)")


class NodeView(msgspec.Struct, frozen=True):
    """One node now. `lost`: the reason that it does not answer. `figures` None: this is its first reading."""

    url: str
    figures: Figures | None = None
    lost: str = ""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at one moment."""

    at_ms: int
    nodes: tuple[NodeView, ...]
    all: Figures | None  # all nodes that answer, together
    servers: tuple[ServerLoad, ...] = ()  # of the keyspace, the busiest first; empty at the first view
    slow: tuple[SlowCommand, ...] | None  # since `top` was started, newest first; None: the keyspace does not answer

    @property
    def is_lost(self) -> bool:
        return all(node.lost for node in self.nodes)


class Watched:
    """One node over time."""

    def __init__(self, url: str, client: httpx2.AsyncClient, clock: Clock) -> None:
        self.url = url
        self._page = metrics_url(url)
        self._client = client
        self._clock = clock
        self._last: Reading | None = None

    async def look(self) -> tuple[Pair | None, str]:
        """Its readings before and now, and the reason that it is lost."""
        try:
            async with asyncio.timeout(TOP_FETCH_S):
                answer = await self._client.get(self._page)
            if answer.status_code != 200 or len(answer.content) > TOP_PAGE_BYTES_MAX:
                raise ValueError(f"it answers {answer.status_code}, {len(answer.content)} bytes")
            now = read_page(answer.text, self._clock.monotonic_s())
        except (httpx2.HTTPError, ValueError, TimeoutError) as error:
            self._last = None
            return None, _reason(error)
        last, self._last = self._last, now
        return (None if last is None else (last, now)), ""


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return f"no answer within {TOP_FETCH_S:g} s"
    return " ".join(str(error).split()) or type(error).__name__


class Watch:
    """All nodes over time."""

    def __init__(self, nodes: Sequence[Watched], servers: WatchedServers, clock: Clock) -> None:
        self._nodes = nodes
        self._servers = servers
        self._clock = clock

    async def look(self) -> View:
        found = await asyncio.gather(*(node.look() for node in self._nodes))
        pairs = [pair for pair, _ in found if pair is not None]
        views = [
            NodeView(node.url, figures_of([pair]) if pair else None, lost)
            for node, (pair, lost) in zip(self._nodes, found, strict=True)
        ]
        return View(
            at_ms=self._clock.now_ms(),
            nodes=tuple(views),
            all=figures_of(pairs) if pairs else None,
            servers=await self._servers.loads(),
            slow=await self._servers.slow_commands(),
        )


def metrics_url(url: str) -> str:
    """The address of a node, as HOST:PORT or a URL, with or without /metrics. Raises SettingsError."""
    text = web_url(f"http://{url}" if _HOST_PORT.match(url) else url).rstrip("/")
    return text if urlsplit(text).path else f"{text}/metrics"


def local_url(settings: Settings) -> str:
    """The address of the node of these settings, as seen from this machine."""
    if settings.port == 0:
        raise SettingsError("port is 0, so the address of the node is unknown; name it: tidings top http://host:port")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    scheme = "http" if settings.tls.cert is None else "https"
    return f"{scheme}://[{host}]:{settings.port}" if ":" in host else f"{scheme}://{host}:{settings.port}"


def open_client() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(timeout=TOP_FETCH_S, follow_redirects=False, trust_env=False)
