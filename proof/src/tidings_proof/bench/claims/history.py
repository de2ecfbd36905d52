"""A page of 20 messages costs at most 250 us of CPU, a node serves 3,000 of them a second, and REST costs little more.

2,000 messages in one conversation; 16 readers page through it from the newest to the oldest and begin again. They begin
at different pages, so that readers who ask for the same page at the same moment do not share one read. Over WebSocket
(`history` frames) and over HTTP (GET, keep-alive). Then one reader alone, who asks one page at a time: no two requests
share a wake-up of the node or a read of the tables, so this is the dearest page.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Literal

from tidings.clock import Clock
from tidings.stores.tables.schemes import DEFAULT
from tidings_proof.bench.load.plan import Measured, Plan, Reader, Readers, measure
from tidings_proof.bench.report.table import columns_of, row_of
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, own_node, token
from tidings_proof.bench.target.seeding import group, tables_in
from tidings_proof.bench.target.target import Target

CLAIM = "pages of 20 out of 2,000 messages, newest first"
ID = "talk"
LIMIT_ITEMS = 20
WARM_UP_S = 3.0

Transport = Literal["ws", "http"]


async def seed(data: Path, messages: int, readers: int, url: str = DEFAULT) -> None:
    async with tables_in(data, url) as tables:
        users = ["writer", *(f"reader{number}" for number in range(readers))]
        await group(tables, ID, users, messages, Clock().now_ms())


def reader(number: int, transport: Transport, messages: int, readers: int) -> Reader:
    """The pages in order, from another one for each reader."""
    pages = [_request(transport, before) for before in range(messages + 1, LIMIT_ITEMS, -LIMIT_ITEMS)]
    first = number * len(pages) // readers
    return Reader(token(f"reader{number}"), pages[first:] + pages[:first])


def _request(transport: Transport, before: int) -> str:
    if transport == "http":
        return f"/v1/conversations/{ID}/messages?before_seq={before}&limit={LIMIT_ITEMS}"
    return json.dumps({"type": "history", "conversation_id": ID, "before_seq": before, "limit": LIMIT_ITEMS})


def measured(server: Target, transport: Transport, readers: int, given: Any) -> Measured:
    asking = [reader(number, transport, given.messages, readers) for number in range(readers)]
    load = Readers(asking, transport, items=LIMIT_ITEMS)
    return measure(Plan(url=server.url, parts=server.parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S))


def checks_of(cpu_us: dict[str, float], per_s: dict[str, float]) -> list[Check]:
    return [
        Check("CPU per page, WebSocket", cpu_us["ws"], "<=", 250, "us"),
        Check("pages a second, WebSocket", per_s["ws"], ">=", 3_000),
        Check("CPU per page, HTTP", cpu_us["http"], "<=", 250, "us"),
        Check("pages a second, HTTP", per_s["http"], ">=", 3_000),
        Check("CPU per page, HTTP over WebSocket", cpu_us["http"] / cpu_us["ws"], "<=", 1.4, "x"),
        Check("the same, one page at a time", cpu_us["http, alone"] / cpu_us["ws, alone"], "<=", 1.4, "x"),
    ]


def run(given: Any) -> Findings:
    transports: tuple[Transport, ...] = ("ws", "http")
    with folder() as data:
        asyncio.run(seed(data, given.messages, given.clients))
        with own_node(data) as server:
            found = {str(one): measured(server, one, given.clients, given) for one in transports}
            found |= {f"{one}, alone": measured(server, one, 1, given) for one in transports}
    return Findings(
        claim=CLAIM,
        settings={
            "messages": given.messages,
            "readers": given.clients,
            "limit": LIMIT_ITEMS,
            "seconds": given.seconds,
            "limits": f"{LIMIT} for every class",
        },
        figures={transport: one.figures() for transport, one in found.items()},
        columns=columns_of("page", found["ws"]),
        rows=[row_of(transport, one) for transport, one in found.items()],
        checks=checks_of(
            {name: one.cpu_us for name, one in found.items()}, {name: one.per_s for name, one in found.items()}
        ),
        runs=found,
        unit="page",
    )
