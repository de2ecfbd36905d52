"""Unread costs the same with 10 unread messages as with 10,000: reading the count, marking, and one more arriving.

For each size one group of 100 members who have that many unread. Each operation is measured over all of them: `count`
(the conversation's row at the top of the inbox), `arrive` (a message from the other member: cost per member whose count
goes up; nobody else is connected), `mark one` (up_to_seq one further, five times), `mark all` (up_to_seq the last).
10,000 is the cap: there `arrive` includes the trim, and what is marked lies below what the set still holds.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tidings.clock import Clock
from tidings_proof.bench.load.plan import Measured, Plan, Reader, Readers, measure
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, own_node, token
from tidings_proof.bench.target.seeding import group, tables_in
from tidings_proof.bench.target.target import Target

CLAIM = "CPU us per operation, by how many messages are unread"
SIZES = (10, 100, 1_000, 10_000)
MEMBERS = 100
COUNTS = 20  # reads of the count per member
ARRIVALS = 40  # messages that arrive
MARKS = 5  # marks of one message per member
OPERATIONS = ("count", "arrive", "mark one", "mark all")


def users_of(size: int) -> list[str]:
    return [f"user{size}-{number}" for number in range(MEMBERS)]


async def seed(data: Path) -> None:
    async with tables_in(data) as tables:
        for size in SIZES:
            await group(tables, f"group{size}", [f"writer{size}", *users_of(size)], size, Clock().now_ms())


def warm(server: Target, size: int) -> None:
    """The first look of each member rebuilds; after it the count is there, and right."""
    for user_id in users_of(size):
        page = server.call("GET", "/v1/inbox?limit=1", user_id=user_id)
        assert page["conversations"][0]["unread_count"] == size, page


def frames(operation: str, size: int) -> list[str]:
    """Return the frames that one member sends; with `arrive`, the member is the writer."""
    id_ = f"group{size}"
    if operation == "count":
        return [json.dumps({"type": "inbox", "limit": 1})] * COUNTS
    if operation == "arrive":
        send = {"type": "message.send", "conversation_id": id_, "text": "x" * 64}
        return [json.dumps({**send, "message_id": f"arrival{number}"}) for number in range(ARRIVALS)]
    last = size + ARRIVALS
    upto = range(1, MARKS + 1) if operation == "mark one" else (last,)
    return [json.dumps({"type": "message.read", "conversation_id": id_, "up_to_seq": seq}) for seq in upto]


def measured(server: Target, operation: str, size: int) -> tuple[Measured, float]:
    """Measure one operation. Returns its run and its CPU per operation in microseconds."""
    users = [f"writer{size}"] if operation == "arrive" else users_of(size)
    load = Readers([Reader(token(user_id), frames(operation, size)) for user_id in users], is_once=True)
    one = measure(Plan(url=server.url, parts=server.parts, load=load))
    return one, one.cpu_us / (MEMBERS if operation == "arrive" else 1)


def check_marked(server: Target, size: int) -> None:
    """Check that every mark is in force: a fast answer must also be a right one."""
    page = server.call("GET", "/v1/inbox?limit=1", user_id=users_of(size)[0])
    assert page["total_unread"] == 0, page


def run(given: Any) -> Findings:
    cpu_us: dict[str, dict[int, float]] = {operation: {} for operation in OPERATIONS}
    runs: dict[str, dict[str, dict[str, float]]] = {operation: {} for operation in OPERATIONS}
    with folder() as data:
        asyncio.run(seed(data))
        with own_node(data) as server:
            for size in SIZES:
                warm(server, size)
                for operation in OPERATIONS:
                    one, cpu_us[operation][size] = measured(server, operation, size)
                    runs[operation][str(size)] = one.figures()
                check_marked(server, size)
    return Findings(
        claim=CLAIM,
        settings={
            "members": MEMBERS,
            "operations": {"count": COUNTS, "arrive": ARRIVALS, "mark one": MARKS, "mark all": 1},
            "limits": f"{LIMIT} for every class",
        },
        figures={
            operation: {"cpu_us": {str(size): round(us, 1) for size, us in by_size.items()}, "runs": runs[operation]}
            for operation, by_size in cpu_us.items()
        },
        columns=["operation", *(f"{size:,} unread" for size in SIZES), "largest / smallest"],
        rows=[[operation, *by_size.values(), _rise(by_size)] for operation, by_size in cpu_us.items()],
        checks=[
            # Flat: 1,000 times as many may cost half as much again. That is the noise of short runs and a deeper set.
            Check(f"{operation}, 10,000 over 10", _rise(by_size), "<=", 1.5, "x")
            for operation, by_size in cpu_us.items()
        ],
    )


def _rise(by_size: dict[int, float]) -> float:
    return by_size[SIZES[-1]] / by_size[SIZES[0]]
