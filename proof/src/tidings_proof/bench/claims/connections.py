"""10,000 idle connections of one node take at most 12 KiB of its memory each, and next to no CPU.

Each is another user's, connected and greeted, and says nothing more. Memory is the growth of the node's resident size
from before the first to after the last, divided by their number: whatever a connection brings with it counts, caches of
tokens and users too. CPU at rest is what the node and its Valkey use while nobody does anything: pings that are due,
leases that are renewed, sweeps. The window should be longer than the 25 s after which every connection is pinged.
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
COLUMNS = ["connections", "KiB each", "node MiB", "opened/s", "open CPU us", "node % of a core", "Valkey %"]
SETTLE_S = 3.0  # what a connect leaves behind (presence, leases) has been written by then


def nothing(answer: Answer) -> None:
    """Do nothing: an idle client hears frames and answers none."""


async def measure(server: Target, count: int, seconds: float) -> dict[str, float]:
    tally = Tally()
    tokens = [token(f"idle{number}") for number in range(count)]
    sockets: list[Socket] = []

    async def open_one(one: str) -> None:
        sockets.append(await connect(server.url, one, tally, nothing))

    before, cpu_before, began_s = rss_bytes(server.parts["node"]), cpu_s(server.parts), time.perf_counter()
    await in_turn([lambda one=one: open_one(one) for one in tokens])  # type: ignore[misc]
    opened_s, cpu_open = time.perf_counter() - began_s, cpu_s(server.parts)
    await passed(tally, asyncio.sleep(SETTLE_S))
    after, rest_before, rest_s = rss_bytes(server.parts["node"]), cpu_s(server.parts), time.perf_counter()
    await passed(tally, asyncio.sleep(seconds))
    rested_s, rest_after = time.perf_counter() - rest_s, cpu_s(server.parts)
    used = {name: (rest_after[name] - rest_before[name]) / rested_s for name in rest_after}
    assert len(sockets) == count
    return {
        "connections": count,
        "bytes_per_connection": round((after - before) / count, 1),
        "node_rss_before_bytes": before,
        "node_rss_bytes": after,
        "opened_per_s": round(count / opened_s, 1),
        "open_cpu_us": round(sum(cpu_open[name] - cpu_before[name] for name in cpu_open) * 1e6 / count, 1),
        "node_cpu_share_at_rest": round(used["node"], 4),
        "valkey_cpu_share_at_rest": round(used["valkey"], 4),
    }


def checks_of(figures: dict[str, Any]) -> list[Check]:
    return [
        Check("memory per idle connection", figures["bytes_per_connection"] / 1024, "<=", 12, "KiB"),
        Check("node CPU at rest, of one core", figures["node_cpu_share_at_rest"] * 100, "<=", 10, "%"),
    ]


def row(figures: dict[str, Any]) -> list[str | float]:
    return [
        figures["connections"],
        figures["bytes_per_connection"] / 1024,
        figures["node_rss_bytes"] / 2**20,
        figures["opened_per_s"],
        figures["open_cpu_us"],
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
