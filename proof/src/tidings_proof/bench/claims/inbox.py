"""Opening the inbox costs the same for a user with 50 conversations as for one with 5,000 or 50,000.

An open is one `inbox` frame with limit 20 over WebSocket. For each size four users, members of the same groups, open it
again and again on four connections each. How many rows of `conversations` an open reads is taken from /metrics. The
first open of a user finds an empty keyspace and rebuilds it; that one is shown apart. At the largest size the pages of
the filters are opened too: each of them has more conversations than a page.
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
FILTERS = ("unread", "mentions", "muted", "pinned")
DEARER_MAX = 1.2  # a page of a filter, over the plain one


def request_of(filter_name: str | None) -> str:
    asked = {"type": "inbox", "limit": ITEMS, "cursor": None}
    return json.dumps(asked if filter_name is None else {**asked, "filter": filter_name})


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


def marked(size: int) -> int:
    """How many conversations of each user are muted, pinned, or have a mention: more than a page, where there are."""
    return min(2 * ITEMS, size // 3)


def mark(server: Target, size: int) -> None:
    """Give every filter its conversations."""
    for number in range(marked(size)):
        body = {"text": "you", "mentions": users_of(size)}
        server.call("POST", f"/v1/conversations/group{size}-{number}/messages", body, user_id="writer")
        for user_id in users_of(size):
            for at, flag in enumerate(("muted", "pinned"), start=1):
                row = f"/v1/inbox/group{size}-{number + at * marked(size)}"
                server.call("PATCH", row, {flag: True}, user_id=user_id)


def measured(server: Target, size: int, given: Any, filter_name: str | None = None) -> tuple[Measured, float]:
    """Measure the cost of one open, and the number of conversation rows that it reads."""
    request = request_of(filter_name)
    asking = [Reader(token(user_id), [request]) for user_id in users_of(size) for _ in range(CONNECTIONS)]
    is_long = filter_name in (None, "unread")
    load = Readers(asking, items=ITEMS if is_long else min(ITEMS, marked(size)))
    plan = Plan(url=server.url, parts=server.parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S)
    return measure(plan), rows_per_open(server, size, filter_name)


def rows_per_open(server: Target, size: int, filter_name: str | None = None) -> float:
    """Counted apart, over opens that nothing else mixes with."""
    opens, before = 10, server.metric("tidings_table_rows_read_total", table="conversations")
    path = f"/v1/inbox?limit={ITEMS}" + (f"&filter={filter_name}" if filter_name else "")
    for _ in range(opens):
        server.call("GET", path, user_id=users_of(size)[0])
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
            mark(server, sizes[-1])
            for name in ("plain", *FILTERS):  # the plain one again: the flags have changed what it shows
                one, read = measured(server, sizes[-1], given, None if name == "plain" else name)
                found[name] = {**one.figures(), "rows_read": read}
                rows.append([*row_of(f"{sizes[-1]:,}, {name}", one), read, ""])
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
    dearest = max(found[str(size)]["cpu_us"] for size in sizes)
    filtered = {name: found[name]["cpu_us"] / found["plain"]["cpu_us"] for name in FILTERS}
    dearer = max(filtered, key=lambda name: filtered[name])
    return [
        Check(f"CPU per open, {sizes[-1]:,} conversations", large["cpu_us"], "<=", 400, "us"),
        Check("conversation rows read per open, the most", max(one["rows_read"] for one in found.values()), "==", 20),
        Check(f"CPU per open, {sizes[-1]:,} over {sizes[0]}", large["cpu_us"] / small["cpu_us"], "<=", 1.3, "x"),
        Check(f"CPU per open, the dearest size over {sizes[0]}", dearest / small["cpu_us"], "<=", 1.3, "x"),
        Check(f"CPU per open, the filter {dearer} over the plain one", filtered[dearer], "<=", DEARER_MAX, "x"),
    ]
