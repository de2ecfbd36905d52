"""The slow commands of a keyspace since `top` was started, from the SLOWLOG of each of its servers.

One short question a server and look. A server that is lost is asked again at the next look; one that never answers is
simply not told of: /metrics is what `top` is about. Used by cli_top.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from tidings.clock import Clock
from tidings.config import Settings
from tidings.doctor.servers import Server, open_servers
from tidings.doctor.slow import Slow, read_slowlog, script_names
from tidings.errors import Unavailable
from tidings.opening import LUA

_SHOWN = 20


class ServersSlowlog:
    """`read` answers what was slow since the first call, newest first."""

    def __init__(self, servers: Sequence[Server], scripts: Mapping[str, str], since_s: int) -> None:
        self._servers = servers
        self._scripts = scripts
        self._since_s = since_s

    async def read(self) -> tuple[Slow, ...] | None:
        found: list[Slow] = []
        answered = 0
        for server in self._servers:
            try:
                entries = await read_slowlog(server, self._scripts)
            except Unavailable:
                continue
            answered += entries is not None
            found += [entry for entry in entries or () if entry.at_s >= self._since_s]
        newest = sorted(found, key=lambda entry: -entry.at_s)[:_SHOWN]
        return tuple(newest) if answered else None


@asynccontextmanager
async def open_slowlog(settings: Settings, clock: Clock) -> AsyncIterator[ServersSlowlog]:
    """Of the keyspace that the settings name; an embedded one only if a node runs it."""
    async with open_servers(settings, clock, may_start=False) as found:
        since_s = clock.now_ms() // 1000
        if found.servers:
            seconds, _ = await found.servers[0].ask("TIME")  # its own clock stamps the entries
            since_s = int(seconds)
        yield ServersSlowlog(found.servers, script_names(LUA), since_s)
