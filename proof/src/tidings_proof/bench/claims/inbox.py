"""Opening the inbox costs the same for a user with 50 conversations as for one with 5,000 or 50,000.

An open is one `inbox` frame with limit 20 over WebSocket. For each size four users, members of the same groups, open it
again and again on four connections each. How many rows of `conversations` an open reads is taken from /metrics. The
first open of a user finds an empty keyspace and rebuilds it; that one is shown apart.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidings.clock import Clock
from tidings_proof.bench.load.plan import Measured, Plan, Reader, Readers, measure
from tidings_proof.bench.report.table import columns_of, row_of
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, own_node, token
from tidings_proof.bench.target.seeding import groups, tables_in
from tidings_proof.bench.target.target import Target

CLAIM = "one open of the inbox: the newest 20 conversations with their counts"
SIZES = (50, 500, 5_000, 50_000)
USERS = 4
CONNECTIONS = 4
ITEMS = 20
WARM_UP_S = 1.0
OPEN = json.dumps({"type": "inbox", "limit": ITEMS, "cursor": None})


def users_of(size: int) -> list[str]:
    return [f"user{size}-{number}" for number in range(USERS)]


async def seed(data: Path, sizes: Sequence[int]) -> None:
    async with tables_in(data) as tables:
        for size in sizes:
            ids = [f"group{size}-{number}" for number in range(size)]
            await groups(tables, ids, ["writer", *users_of(size)], Clock().now_ms() - 2 * size)


def first_open_ms(server: Target, size: int) -> float:
    """The mean of the users' first ones, each with a rebuild."""
    began_s = time.perf_counter()
    for user_id in users_of(size):
        page = server.call("GET", f"/v1/inbox?limit={ITEMS}", user_id=user_id)
        assert page["total_unread"] == size, page["total_unread"]
    return (time.perf_counter() - began_s) * 1000 / USERS


def measured(server: Target, size: int, given: Any) -> tuple[Measured, float]:
    """Measure the cost of one open, and the number of conversation rows that it reads."""
    asking = [Reader(token(user_id), [OPEN]) for user_id in users_of(size) for _ in range(CONNECTIONS)]
    load = Readers(asking, items=ITEMS)
    plan = Plan(url=server.url, parts=server.parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S)
    return measure(plan), rows_per_open(server, size)


def rows_per_open(server: Target, size: int) -> float:
    """Counted apart, over opens that nothing else mixes with."""
    opens, before = 10, server.metric("tidings_table_rows_read_total", table="conversations")
    for _ in range(opens):
        server.call("GET", f"/v1/inbox?limit={ITEMS}", user_id=users_of(size)[0])
    return (server.metric("tidings_table_rows_read_total", table="conversations") - before) / opens


def run(given: Any) -> Findings:
    sizes = [size for size in SIZES if size <= given.conversations] or [SIZES[0]]
    runs: dict[str, Measured] = {}
    found, rows = {}, list[list[str | float]]()
    with folder() as data:
        asyncio.run(seed(data, sizes))
        with own_node(data) as server:
            for size in sizes:
                first_ms = first_open_ms(server, size)
                one, read = measured(server, size, given)
                runs[f"{size:,} conversations"] = one
                found[str(size)] = {**one.figures(), "rows_read": read, "first_open_ms": round(first_ms, 1)}
                rows.append([*row_of(f"{size:,} conversations", one), read, first_ms])
    return Findings(
        claim=CLAIM,
        settings={
            "sizes": sizes,
            "users": USERS,
            "connections": USERS * CONNECTIONS,
            "limit": ITEMS,
            "seconds": given.seconds,
            "limits": f"{LIMIT} for every class",
        },
        figures=found,
        columns=[*columns_of("open", next(iter(runs.values()))), "rows read", "first open ms"],
        rows=rows,
        checks=checks_of(sizes, found),
        runs=runs,
        unit="open",
    )


def checks_of(sizes: Sequence[int], found: dict[str, dict[str, float]]) -> list[Check]:
    small, large = found[str(sizes[0])], found[str(sizes[-1])]
    dearest = max(one["cpu_us"] for one in found.values())
    return [
        Check(f"CPU per open, {sizes[-1]:,} conversations", large["cpu_us"], "<=", 400, "us"),
        Check("conversation rows read per open, the most", max(one["rows_read"] for one in found.values()), "==", 20),
        Check(f"CPU per open, {sizes[-1]:,} over {sizes[0]}", large["cpu_us"] / small["cpu_us"], "<=", 1.3, "x"),
        Check(f"CPU per open, the dearest size over {sizes[0]}", dearest / small["cpu_us"], "<=", 1.3, "x"),
    ]
