"""Idle connections on all servers at once: what a sign-in costs, then memory and CPU of connections that say nothing.

The connections of each server are opened in a few parts, and the servers take turns. Each connection is another user's.
The window at rest is the same for all: an idle server hardly disturbs the others.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import defaultdict
from collections.abc import Mapping

from tidings_proof.bench.load.connections import Answer, Tally, in_turn
from tidings_proof.bench.load.dialects import Link
from tidings_proof.bench.load.generator import DIALECTS, passed
from tidings_proof.bench.target.processes import cpu_s, rss_bytes
from tidings_proof.bench.versus.rivals import Server
from tidings_proof.bench.versus.works import Figures

SETTLE_S = 3.0  # what a connect leaves behind has been written by then
_FILES_SPARE = 1_000


def _nothing(answer: Answer) -> None:
    """Do nothing: an idle client hears frames and answers none."""


def total_s(server: Server) -> float:
    return sum(cpu_s(server.parts).values())


def memory_bytes(server: Server) -> int:
    return sum(rss_bytes(pids) for pids in server.parts.values())


def allow_files(connections: int) -> None:
    """Raise the limit of open files of this process and of servers that it starts later, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _FILES_SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


async def measure(servers: Mapping[str, Server], parts: int) -> dict[str, dict[str, list[float]]]:
    """Row -> server -> figures. There is one sign-in figure for each part."""
    tally, links = Tally(), list[Link]()
    sign_ins: dict[str, list[float]] = defaultdict(list)
    before = {name: memory_bytes(server) for name, server in servers.items()}
    for part in range(parts):
        for name, server in servers.items():
            sign_ins[name].append(await _sign_in(server, part, parts, tally, links))
    await passed(tally, asyncio.sleep(SETTLE_S))
    rest = await _rest(servers, before, tally)
    await in_turn([link.leave for link in links])
    rows = {row: {name: [found[row]] for name, found in rest.items()} for row in ("idle", "memory")}
    return {"connect": dict(sign_ins), **rows}


async def _sign_in(server: Server, part: int, parts: int, tally: Tally, links: list[Link]) -> float:
    """Open a part of the connections; ms of CPU each."""
    connect, numbers = DIALECTS[server.dialect].connect, range(part, server.sizes.connections, parts)

    async def open_one(token: str) -> None:
        links.append(await connect(server.url, token, tally, _nothing))

    tokens = [server.token(f"idle{number}") for number in numbers]
    before_s = total_s(server)
    await in_turn([lambda one=one: open_one(one) for one in tokens])  # type: ignore[misc]
    return (total_s(server) - before_s) * 1000 / len(tokens)


async def _rest(servers: Mapping[str, Server], before: Mapping[str, int], tally: Tally) -> dict[str, Figures]:
    seconds = next(iter(servers.values())).sizes.idle_s
    kib = {name: (memory_bytes(one) - before[name]) / 1024 / one.sizes.connections for name, one in servers.items()}
    used, began_s = {name: total_s(one) for name, one in servers.items()}, time.perf_counter()
    await passed(tally, asyncio.sleep(seconds))
    took_s = time.perf_counter() - began_s
    return {
        name: {"idle": (total_s(one) - used[name]) * 100 / took_s, "memory": kib[name]} for name, one in servers.items()
    }
