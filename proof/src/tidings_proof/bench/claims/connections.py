"""10,000 idle connections of one node take at most 12 KiB of its memory each and less than 1 % of a core together.

Each is another user's, connected and greeted, and says nothing more. Memory is the growth of the node's resident size
from before the first to after the last, divided by their number: whatever a connection brings with it counts, caches of
tokens and users too. CPU at rest is what the node and its Valkey use while nobody does anything: pings that are due,
leases that are renewed, sweeps. The window should be longer than the 25 s after which every connection is pinged. A
sign-in is the CPU from the TCP connection to hello: of users whom the keyspace does not know yet, 50 at a time, and of
the same users who return.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import uvloop

from tidings_proof.bench.load.connections import Answer, Socket, Tally, connect, in_turn
from tidings_proof.bench.load.generator import passed
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import folder, own_node, token
from tidings_proof.bench.target.processes import cpu_s, rss_bytes
from tidings_proof.bench.target.target import Target

CLAIM = "idle connections on one node"
COLUMNS = [
    "connections",
    "KiB each",
    "node MiB",
    "opened/s",
    "sign-in CPU us",
    "return CPU us",
    "node % of a core",
    "Valkey %",
]
SETTLE_S = 3.0  # what a connect leaves behind (presence, leases) has been written by then
RETURNING = 50_000  # sockets of a node that all come back after a network's hiccup


def nothing(answer: Answer) -> None:
    """Do nothing: an idle client hears frames and answers none."""


async def measure(server: Target, count: int, seconds: float) -> dict[str, float]:
    tally = Tally()
    tokens = [token(f"idle{number}") for number in range(count)]
    sockets: list[Socket] = []

    async def open_one(one: str) -> None:
        sockets.append(await connect(server.url, one, tally, nothing))

    async def open_all() -> float:
        """Open them all. Returns the CPU of the server, us for each."""
        cpu_before = cpu_s(server.parts)
        await in_turn([lambda one=one: open_one(one) for one in tokens])  # type: ignore[misc]
        cpu_after = cpu_s(server.parts)
        return sum(cpu_after[name] - cpu_before[name] for name in cpu_after) * 1e6 / count

    before, began_s = rss_bytes(server.parts["node"]), time.perf_counter()
    open_cpu_us = await open_all()
    opened_s = time.perf_counter() - began_s
    await passed(tally, asyncio.sleep(SETTLE_S))
    after, rest_before, rest_s = rss_bytes(server.parts["node"]), cpu_s(server.parts), time.perf_counter()
    await passed(tally, asyncio.sleep(seconds))
    rested_s, rest_after = time.perf_counter() - rest_s, cpu_s(server.parts)
    used = {name: (rest_after[name] - rest_before[name]) / rested_s for name in rest_after}
    assert len(sockets) == count
    await in_turn([one.leave for one in sockets])
    await passed(tally, asyncio.sleep(SETTLE_S))
    return_cpu_us = await open_all()
    return {
        "connections": count,
        "bytes_per_connection": round((after - before) / count, 1),
        "node_rss_before_bytes": before,
        "node_rss_bytes": after,
        "opened_per_s": round(count / opened_s, 1),
        "open_cpu_us": round(open_cpu_us, 1),
        "return_cpu_us": round(return_cpu_us, 1),
        "node_cpu_share_at_rest": round(used["node"], 4),
        "valkey_cpu_share_at_rest": round(used["valkey"], 4),
    }


def checks_of(figures: dict[str, Any]) -> list[Check]:
    return [
        Check("memory per idle connection", figures["bytes_per_connection"] / 1024, "<=", 12, "KiB"),
        Check("node CPU at rest, of one core", figures["node_cpu_share_at_rest"] * 100, "<=", 1, "%"),
        Check("CPU per sign-in", figures["open_cpu_us"], "<=", 800, "us"),
        Check(f"CPU of {RETURNING:,} that return", figures["return_cpu_us"] * RETURNING / 1e6, "<=", 30, "s"),
    ]


def row(figures: dict[str, Any]) -> list[str | float]:
    return [
        figures["connections"],
        figures["bytes_per_connection"] / 1024,
        figures["node_rss_bytes"] / 2**20,
        figures["opened_per_s"],
        figures["open_cpu_us"],
        figures["return_cpu_us"],
        figures["node_cpu_share_at_rest"] * 100,
        figures["valkey_cpu_share_at_rest"] * 100,
    ]


def run(given: Any) -> Findings:
    with folder() as data, own_node(data) as server:
        figures = uvloop.run(measure(server, given.clients, given.seconds))
    return Findings(
        claim=CLAIM,
        settings={
            "connections": given.clients,
            "seconds": given.seconds,
            "users": "one connection each, no device name",
        },
        figures=figures,
        columns=COLUMNS,
        rows=[row(figures)],
        checks=checks_of(figures),
    )
