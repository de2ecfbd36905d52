"""Old texts move to the cold tier at 10,000 messages a second, and scrolling there costs little more than elsewhere.

Half of the conversations are a month old and are archived, half are not. First the archiver alone, in this process, on
SQLite and a folder: messages a second, CPU per message, bytes and objects per million messages, and what the tables get
back. Then a node: pages of 20 out of an archived conversation against pages of one that is not. `scroll` pages through
one conversation, so that its segments are kept decoded; `first` asks for one page of each conversation, so that every
page reads an object. The texts are made-up words, the frequent ones more often: real ones compress about as well.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import apsw

from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.messaging.archive.schedule import Pass
from tidings.node.graph import open_core
from tidings_proof.bench.load.plan import Measured, Plan, Reader, Readers, measure
from tidings_proof.bench.report.table import columns_of, row_of
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, own_node, token
from tidings_proof.bench.target.seeding import Words, group, tables_in
from tidings_proof.bench.target.target import Target

CLAIM = "texts to the cold tier, and pages of 20 from there"
MONTH_MS = 31 * 86_400_000
LIMIT_ITEMS = 20
WARM_UP_S = 1.0
MILLION = 1_000_000


def names(kind: str, count: int) -> list[str]:
    return [f"{kind}{number}" for number in range(count)]


async def seed(data: Path, given: Any) -> None:
    words, now_ms = Words(), Clock().now_ms()
    users = ["writer", *names("reader", given.clients)]
    async with tables_in(data) as tables:
        for kind, last_ms in (("cold", now_ms - MONTH_MS), ("hot", now_ms)):
            for id_ in names(kind, given.conversations):
                await group(tables, id_, users, given.messages, last_ms, text=words.text)


class Archiving:
    """The work of the archiver, and its time and CPU."""

    def __init__(self, done: Pass, seconds: float, cpu_s: float, freed_bytes: int) -> None:
        self.messages = done.archived.messages
        self.per_s = self.messages / seconds
        self.cpu_us = cpu_s * MILLION / self.messages
        self.bytes_per_million = done.archived.bytes * MILLION / self.messages
        self.objects_per_million = done.archived.segments * MILLION / self.messages
        self.freed_per_million = freed_bytes * MILLION / self.messages

    def figures(self) -> dict[str, float]:
        return {name: round(value, 1) for name, value in vars(self).items()}


async def archive(data: Path, expected: int) -> Archiving:
    settings = dataclasses.replace(Settings(), data=data)
    before = table_bytes(data)
    async with open_core(settings) as core:
        began_s, cpu_s = time.monotonic(), time.process_time()
        done = await core.cold.archiving.run()
        seconds, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    assert done.archived.messages == expected and not done.archived.failed, done
    return Archiving(done, seconds, cpu_s, before - table_bytes(data))


def table_bytes(data: Path) -> int:
    """Of the tables' file, packed: SQLite keeps half-empty pages until it is told to VACUUM."""
    packed = data / "packed.db"
    connection = apsw.Connection(str(data / "tidings.db"))
    try:
        connection.execute("VACUUM INTO ?", (str(packed),))
        return packed.stat().st_size
    finally:
        connection.close()
        packed.unlink(missing_ok=True)


def scroll(kind: str, given: Any) -> list[Reader]:
    """One conversation from its newest page to its oldest, each reader from another page on."""
    places = range(given.messages + 1, LIMIT_ITEMS, -LIMIT_ITEMS)
    pages = [_request(f"{kind}0", before) for before in places]
    firsts = [number * len(pages) // given.clients for number in range(given.clients)]
    return [Reader(token(f"reader{n}"), pages[at:] + pages[:at]) for n, at in enumerate(firsts)]


def first(kind: str, given: Any) -> list[Reader]:
    """One page of each conversation, by one reader or another. The conversation that `scroll` has read is left out."""
    ids = names(kind, given.conversations)[1:]
    asked = [ids[number :: given.clients] for number in range(given.clients)]
    middle = given.messages // 2
    return [
        Reader(token(f"reader{n}"), [_request(id_, middle) for id_ in some]) for n, some in enumerate(asked) if some
    ]


def _request(conversation_id: str, before: int) -> str:
    frame = {"type": "history", "conversation_id": conversation_id, "before_seq": before, "limit": LIMIT_ITEMS}
    return json.dumps(frame)


def measured(server: Target, how: str, kind: str, given: Any) -> Measured:
    is_once = how == "first"
    readers = (first if is_once else scroll)(kind, given)
    load = Readers(readers, items=LIMIT_ITEMS, is_once=is_once)
    return measure(Plan(url=server.url, parts=server.parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S))


def run(given: Any) -> Findings:
    with folder() as data:
        asyncio.run(seed(data, given))
        archived = asyncio.run(archive(data, given.conversations * given.messages))
        with own_node(data) as server:
            found = {
                f"{how}, {kind}": measured(server, how, kind, given)
                for how in ("scroll", "first")
                for kind in ("hot", "cold")
            }
            objects = server.metric("tidings_archive_reads_total", source="blobs")
    return Findings(
        claim=CLAIM,
        settings={
            "conversations": given.conversations,
            "messages": given.messages,
            "readers": given.clients,
            "limit": LIMIT_ITEMS,
            "seconds": given.seconds,
            "limits": f"{LIMIT} for every class",
        },
        figures={
            "archiver": archived.figures(),
            **{name: one.figures() for name, one in found.items()},
            "objects_read": objects,
        },
        columns=columns_of("page", found["scroll, hot"]),
        rows=[row_of(name, one) for name, one in found.items()],
        checks=checks_of(archived, found),
        runs=found,
        unit="page",
    )


def checks_of(archived: Archiving, found: dict[str, Measured]) -> list[Check]:
    hot, cold = found["scroll, hot"], found["scroll, cold"]
    return [
        Check("messages archived a second", archived.per_s, ">=", 10_000),
        Check("CPU per message archived", archived.cpu_us, "<=", 60, "us"),
        Check("objects per million messages", archived.objects_per_million, "<=", 1_100),
        Check("MB per million messages", archived.bytes_per_million / MILLION, "<=", 40, "MB"),
        Check("MB less in the tables per million, packed", archived.freed_per_million / MILLION, ">=", 30, "MB"),
        Check("CPU of a page, kept segment against hot", cold.cpu_us / hot.cpu_us, "<=", 1.25, "times"),
        Check("CPU of a page that reads its object", found["first, cold"].cpu_us, "<=", 3_000, "us"),
        Check("p50 of a page that reads its object", found["first, cold"].p50_ms, "<=", 15, "ms"),
    ]
