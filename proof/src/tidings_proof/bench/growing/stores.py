"""With the tables on PostgreSQL a message costs at most 300 us of CPU, and a page of 20 messages at most 350 us.

Two nodes run for the whole time, one on SQLite, one on a PostgreSQL server of its own with its default settings. They
take turns, and the other one is first in the next round. A figure is the median of its rounds. The work is that of
`bench send` (pairs in a closed loop) and of `bench history` (readers over WebSocket), in a conversation that is in use:
somebody has just posted there. All processes of PostgreSQL count.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from tidings_proof.bench.claims.history import ID, seed
from tidings_proof.bench.claims.history import measured as pages
from tidings_proof.bench.claims.send import TEXT, pairs_on
from tidings_proof.bench.load.plan import Measured, Pair, Pairs, Plan, measure
from tidings_proof.bench.report.table import columns_of, row_of
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, own_node
from tidings_proof.bench.target.processes import TREE
from tidings_proof.bench.target.target import Target
from tidings_proof.world.dynamodb import NotThere
from tidings_proof.world.postgres import PostgresServer

CLAIM = "the same messages and pages, the tables on SQLite and on PostgreSQL"
SQLITE, POSTGRES = "SQLite", "PostgreSQL"
SEND, PAGE = "message", "page"
READERS = 16
WARM_UP_S = 2.0
Rounds = dict[str, list[Measured]]  # "message, SQLite" -> its rounds


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    """A server that is gone afterwards. Raises NotThere."""
    database = PostgresServer()
    try:
        yield database
    finally:
        database.stop()


@contextmanager
def on_sqlite(data: Path, given: Any) -> Iterator[Target]:
    asyncio.run(seed(data, given.messages, READERS))
    with own_node(data) as server:
        yield Target(server.url, server.people, {**server.parts, TREE: []})


@contextmanager
def on_postgres(data: Path, given: Any) -> Iterator[Target]:
    with postgres() as database:
        url = database.url("bench")
        asyncio.run(seed(data, given.messages, READERS, url))
        with own_node(data, TIDINGS_TABLES=url) as server:
            yield Target(server.url, server.people, {**server.parts, TREE: [database.pid]})


def measured(servers: Mapping[str, Target], given: Any) -> Rounds:
    """Let the servers take turns: all with messages, then all with pages, and again."""
    pairs = {name: pairs_on(server, given.clients // 2) for name, server in servers.items()}
    for server in servers.values():
        server.say(ID, "writer", "now", TEXT)
    found: Rounds = {f"{what}, {name}": [] for what in (SEND, PAGE) for name in servers}
    for number in range(given.rounds):
        order = list(servers) if number % 2 == 0 else list(servers)[::-1]
        for name in order:
            found[f"{SEND}, {name}"].append(_sent(servers[name], pairs[name], number, given))
        for name in order:
            found[f"{PAGE}, {name}"].append(pages(servers[name], "ws", READERS, given))
    return found


def _sent(server: Target, pairs: list[Pair], number: int, given: Any) -> Measured:
    load = Pairs(pairs, TEXT, f"round{number}", in_flight=given.in_flight)
    return measure(Plan(url=server.url, parts=server.parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S))


def middle(rounds: list[Measured]) -> Measured:
    """The round whose CPU is the median: with an even number of rounds the dearer one of the two."""
    return sorted(rounds, key=lambda one: one.cpu_us)[len(rounds) // 2]


def checks_of(found: Rounds) -> list[Check]:
    targets = {SEND: 300, PAGE: 350}
    medians = {name: median(one.cpu_us for one in rounds) for name, rounds in found.items()}
    return [
        Check(f"CPU per {what}, {POSTGRES}", medians[f"{what}, {POSTGRES}"], "<=", most, "us")
        for what, most in targets.items()
        if f"{what}, {POSTGRES}" in medians
    ]


def run(given: Any) -> Findings:
    with ExitStack() as stack:
        servers = {SQLITE: stack.enter_context(on_sqlite(stack.enter_context(folder()), given))}
        try:
            servers[POSTGRES] = stack.enter_context(on_postgres(stack.enter_context(folder()), given))
        except NotThere as error:
            sys.stderr.write(f"bench: SQLite alone: {error}\n")
        found = measured(servers, given)
    shown = {name: middle(rounds) for name, rounds in found.items()}
    return Findings(
        claim=CLAIM,
        settings={
            "pairs": given.clients // 2,
            "in_flight": given.in_flight,
            "text_bytes": len(TEXT),
            "readers": READERS,
            "messages": given.messages,
            "rounds": given.rounds,
            "seconds": given.seconds,
            "warm_up_s": WARM_UP_S,
            "limits": f"{LIMIT} for every class",
            "postgresql": "synchronous_commit, fsync and autovacuum on, shared_buffers 64 MB, a unix socket",
        },
        figures={name: [one.figures() for one in rounds] for name, rounds in found.items()},
        columns=columns_of("operation", next(iter(shown.values()))),
        rows=[row_of(name, one) for name, one in shown.items()],
        checks=checks_of(found),
        runs=shown,
    )
