"""A page of 20 messages costs at most 250 us of CPU, and a node serves 3,000 of them a second.

2,000 messages in one conversation; 16 readers page through it from the newest to the oldest and begin again. They begin
at different pages, so that readers who ask for the same page at the same moment do not share one read. Over WebSocket
(`history` frames) and over HTTP (GET, keep-alive).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from bench.common import Check, command_of, options, result, show, token, write
from bench.servers import Server, folder, tidings
from tidings.benchmarks.own_node import LIMIT
from tidings.benchmarks.plan import Measured, Plan, Reader, Readers, measure
from tidings.benchmarks.seeding import group, tables_in
from tidings.clock import Clock

NAME = "history"
CLAIM = "pages of 20 out of 2,000 messages, newest first"
COLUMNS = ("transport", "pages/s", "CPU us", "node us", "Valkey us", "p50 ms", "p99 ms", "generator core")
ID = "talk"
LIMIT_ITEMS = 20
WARM_UP_S = 3.0

Transport = Literal["ws", "http"]


async def seed(data: Path, messages: int, readers: int) -> None:
    async with tables_in(data) as tables:
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


def run(server: Server, transport: Transport, given: Any) -> Measured:
    asking = [reader(number, transport, given.messages, given.readers) for number in range(given.readers)]
    load = Readers(asking, transport, items=LIMIT_ITEMS)
    return measure(Plan(url=server.url, parts=server.parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S))


def main(words: Sequence[str] | None = None) -> None:
    parser = options(NAME, __doc__, seconds=10)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--readers", type=int, default=16)
    given = parser.parse_args(words)
    transports: tuple[Transport, ...] = ("ws", "http")
    with folder() as data:
        asyncio.run(seed(data, given.messages, given.readers))
        with tidings(data) as server:
            found = {transport: run(server, transport, given) for transport in transports}
    settings = {
        "messages": given.messages,
        "readers": given.readers,
        "limit": LIMIT_ITEMS,
        "seconds": given.seconds,
        "limits": f"{LIMIT} for every class",
    }
    checks = [
        Check("CPU per page, WebSocket", found["ws"].cpu_us, "<=", 250, "us"),
        Check("pages a second, WebSocket", found["ws"].per_s, ">=", 3_000),
        Check("CPU per page, HTTP", found["http"].cpu_us, "<=", 250, "us"),
        Check("pages a second, HTTP", found["http"].per_s, ">=", 3_000),
    ]
    figures = {str(transport): one.figures() for transport, one in found.items()}
    finished = result(command_of(NAME, parser, given), CLAIM, settings, figures, checks)
    show(finished, COLUMNS, [_row(transport, one) for transport, one in found.items()])
    write(finished, given.out)


def _row(transport: str, one: Measured) -> tuple[object, ...]:
    parts = (one.part_us("node"), one.part_us("valkey"))
    return transport, one.per_s, one.cpu_us, *parts, one.p50_ms, one.p99_ms, one.generator_share


if __name__ == "__main__":
    main()
