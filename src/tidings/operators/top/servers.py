"""Servers of the keyspace as `top` shows them: slow commands since it was started, and the load of each server.

Each view asks each server a few short questions. A lost server is asked again at the next view. A server that never
answers is left out, because `top` is about /metrics.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.errors import Unavailable
from tidings.operators.doctor.server_load import LoadReading, ServerLoad, load_between, read_load
from tidings.operators.doctor.servers import Server, open_servers
from tidings.operators.doctor.slow_commands import SlowCommand, read_slowlog, script_names
from tidings.stores.keyspace.scripts import LUA

_SHOWN = 20


class WatchedServers:
    """The servers over time."""

    def __init__(self, servers: Sequence[Server], scripts: Mapping[str, str], since_s: int, clock: Clock) -> None:
        self._servers = servers
        self._scripts = scripts
        self._since_s = since_s
        self._clock = clock
        self._readings: dict[str, LoadReading] = {}

    async def loads(self) -> tuple[ServerLoad, ...]:
        """The load of each server since the view before, the busiest first. A server that was lost begins anew."""
        found: list[ServerLoad] = []
        for server in self._servers:
            last = self._readings.pop(server.where, None)
            try:
                now = await read_load(server, self._clock)
            except Unavailable:
                continue
            if now is not None:
                self._readings[server.where] = now
                found += [load_between(server.where, last, now)] if last is not None else []
        return tuple(sorted(found, key=lambda load: -load.cpu))

    async def slow_commands(self) -> tuple[SlowCommand, ...] | None:
        """The slow commands since the start, newest first. None: no server answers."""
        found: list[SlowCommand] = []
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
async def watch_servers(settings: Settings, clock: Clock) -> AsyncIterator[WatchedServers]:
    """Open the keyspace of the settings; an embedded one only if a node runs it."""
    async with open_servers(settings, clock, may_start=False) as found:
        since_s = clock.now_ms() // 1000
        if found.servers:
            seconds, _ = await found.servers[0].ask("TIME")  # the clock of the server stamps the entries
            since_s = int(seconds) - 1  # its log counts whole seconds by a coarser clock than TIME
        yield WatchedServers(found.servers, script_names(LUA), since_s, clock)
