"""`tidings tables copy` moves at least 20,000 messages a second from SQLite to PostgreSQL, and as many back.

Conversations with texts of about 60 characters are made in an SQLite file. They are copied to a PostgreSQL server of
this benchmark's own, and from there to another SQLite file. Each copy compares both sides whole, and this is part of
its time: the rows and a checksum of each table, and of each conversation. CPU is that of the copying process and of
all processes of PostgreSQL.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, NamedTuple

from tidings.clock import Clock
from tidings.stores.tables.copying import Copied, copy_tables
from tidings.stores.tables.schemes import DEFAULT
from tidings_proof.bench.growing.stores import POSTGRES, SQLITE, postgres
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import folder
from tidings_proof.bench.target.processes import TREE, cpu_s
from tidings_proof.bench.target.seeding import Words, group, tables_in

CLAIM = "all tables from SQLite to PostgreSQL and back, both sides compared"
PER_S = 20_000


class Copy(NamedTuple):
    copied: Copied
    seconds: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        return self.copied.messages / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.cpu_s * 1e6 / self.copied.messages


async def seed(data: Path, conversations: int, messages: int) -> None:
    words, now_ms = Words(), Clock().now_ms()
    async with tables_in(data) as tables:
        for number in range(conversations):
            await group(tables, f"talk{number}", ["alice", f"user{number}"], messages, now_ms, words.text)


async def copied(data: Path, source: str, target: str, server_pid: int) -> Copy:
    """Copy once. Raises RuntimeError when the sides differ."""
    clock = Clock()
    async with tables_in(data, source) as from_, tables_in(data, target) as to:
        began_s, used_s = clock.monotonic_s(), _used_s(server_pid)
        found = await copy_tables(from_, to)
        one = Copy(found, clock.monotonic_s() - began_s, _used_s(server_pid) - used_s)
    if not found.is_equal:
        raise RuntimeError(f"the two sides differ: {[table.table for table in found.tables if not table.is_equal]}")
    return one


def _used_s(server_pid: int) -> float:
    return time.process_time() + cpu_s({TREE: [server_pid]})[TREE]


def checks_of(found: dict[str, Copy]) -> list[Check]:
    return [Check(f"messages a second, {name}", one.per_s, ">=", PER_S) for name, one in found.items()]


def run(given: Any) -> Findings:
    there, back = f"{SQLITE} to {POSTGRES}", f"{POSTGRES} to {SQLITE}"
    with folder() as data, postgres() as database:
        asyncio.run(seed(data, given.conversations, given.messages))
        url = database.url("bench")
        found = {there: asyncio.run(copied(data, DEFAULT, url, database.pid))}
        found[back] = asyncio.run(copied(data, url, f"sqlite://{data / 'back.db'}", database.pid))
    return Findings(
        claim=CLAIM,
        settings={"conversations": given.conversations, "messages": given.messages},
        figures={
            name: {"per_s": round(one.per_s), "cpu_us": round(one.cpu_us, 1), "seconds": round(one.seconds, 2)}
            for name, one in found.items()
        },
        columns=["", "messages", "seconds", "messages/s", "CPU us", "messages/s of CPU"],
        rows=[
            [name, one.copied.messages, one.seconds, one.per_s, one.cpu_us, 1e6 / one.cpu_us]
            for name, one in found.items()
        ],
        checks=checks_of(found),
        unit="message",
    )
