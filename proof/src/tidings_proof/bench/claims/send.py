"""A durable message costs at most 220 us of CPU, and a fourth of what the textbook server needs.

100 pairs of users, one of each sends 64-byte texts, four in flight; a message counts when it is committed (SQLite,
synchronous=FULL), acknowledged and received. Messages of one conversation that are under way together share their
keyspace calls, so the same is measured with one in flight, where nothing is shared within a conversation; then at a
fixed 500 a second, with latency from the time at which the message was due. The textbook server (textbook.py) does the
same work after it, with the same generator.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tidings_proof.bench.load.plan import Measured, Pair, Pairs, Plan, measure
from tidings_proof.bench.report.table import columns_of, row_of
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, own_node, token
from tidings_proof.bench.target.servers import textbook
from tidings_proof.bench.target.target import Target

CLAIM = "200 sockets in 100 pairs, durable, acknowledged and received"
WARM_UP_S = 3.0
CLOSED, SINGLE, FIXED = "closed loop", "1 in flight", "fixed rate"
TEXT = "x" * 64
SERVERS: dict[str, Callable[[Path], AbstractContextManager[Target]]] = {"tidings": own_node, "textbook": textbook}


def pairs_on(server: Target, count: int) -> list[Pair]:
    """The conversations are there before the clock runs."""
    found = []
    for number in range(count):
        sender, recipient = f"sender{number}", f"recipient{number}"
        conversation_id = server.direct(sender, recipient)
        found.append(Pair(token(sender), token(recipient), conversation_id))
    return found


def measured(server: Target, given: Any) -> dict[str, Measured]:
    """The loads one after another on one server. Each has message ids of its own."""
    pairs = pairs_on(server, given.clients // 2)
    loads = {
        CLOSED: Pairs(pairs, TEXT, "closed", in_flight=given.in_flight),
        SINGLE: Pairs(pairs, TEXT, "single", in_flight=1),
        FIXED: Pairs(pairs, TEXT, "fixed", rate=given.rate),
    }
    plans = {
        name: Plan(url=server.url, parts=server.parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S)
        for name, load in loads.items()
    }
    return {name: measure(plan) for name, plan in plans.items()}


def checks_of(found: dict[str, dict[str, Measured]], rate: float) -> list[Check]:
    """None about a server that was left out."""
    ours, theirs = found.get("tidings"), found.get("textbook")
    if ours is None:
        return []
    checks = [
        Check("CPU per message, closed loop", ours[CLOSED].cpu_us, "<=", 220, "us"),
        Check(f"p50 at {rate:g}/s", ours[FIXED].p50_ms, "<=", 3, "ms"),
        Check(f"CPU per message at {rate:g}/s", ours[FIXED].cpu_us, "<=", 700, "us"),
    ]
    if theirs is not None:
        ratio = theirs[CLOSED].cpu_us / ours[CLOSED].cpu_us
        checks.append(Check("textbook's CPU per message over ours, closed loop", ratio, ">=", 4, "x"))
    return checks


def ratios_of(found: dict[str, dict[str, Measured]]) -> dict[str, float]:
    """The textbook's CPU per message over ours, under each load: what batching saves depends on what is under way."""
    ours, theirs = found.get("tidings", {}), found.get("textbook", {})
    return {load: round(theirs[load].cpu_us / ours[load].cpu_us, 2) for load in ours if load in theirs}


def servers_of(only: str | None) -> list[str]:
    """The servers to measure. The textbook server is left out where its libraries are missing."""
    if only is None and importlib.util.find_spec("fastapi") is None:
        sys.stderr.write("bench: no textbook server without the peers extra: pip install 'tidings-proof[peers]'\n")
        return ["tidings"]
    return [name for name in SERVERS if only in (None, name)]


def run(given: Any) -> Findings:
    found: dict[str, dict[str, Measured]] = {}
    for name in servers_of(given.only):
        with folder() as data, SERVERS[name](data) as server:
            found[name] = measured(server, given)
    ratios = ratios_of(found)
    runs = {f"{name}: {load}": one for name, loads in found.items() for load, one in loads.items()}
    times = {f"textbook: {load}": ratio for load, ratio in ratios.items()}
    return Findings(
        claim=CLAIM,
        settings={
            "pairs": given.clients // 2,
            "in_flight": given.in_flight,
            "rate": given.rate,
            "text_bytes": len(TEXT),
            "seconds": given.seconds,
            "warm_up_s": WARM_UP_S,
            "limits": f"{LIMIT} for every class: the limiter is asked, and refuses nobody",
            "recipients": "online, send no receipts",
            "latency": "until acknowledged and received; at a fixed rate from the time the message was due",
            "textbook": "SQLite WAL and FULL, Valkey AOF everysec",
        },
        figures={
            "textbook_over_tidings": ratios,
            **{name: {load: one.figures() for load, one in loads.items()} for name, loads in found.items()},
        },
        columns=[*columns_of("message", next(iter(runs.values()))), "x ours"],
        rows=[[*row_of(name, one), times.get(name, "")] for name, one in runs.items()],
        checks=checks_of(found, given.rate),
        runs=runs,
        unit="message",
    )
