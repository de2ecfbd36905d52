"""2,000 clients that reconnect at once have all they missed within seconds, and those who are connected hardly notice.

Every client names the last seq it has in three conversations and is behind in each; it is caught up when the last of
its three `resumed` says complete. Meanwhile 20 connected senders each send a message every 100 ms in a conversation of
their own; their acknowledgement latency during the storm is compared with the time before it. The storm comes twice:
on a keyspace that knows none of these users, as after its loss, and on a warm one, as after a network's hiccup.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from tidings_proof.bench.load.connections import Tally
from tidings_proof.bench.load.generator import passed
from tidings_proof.bench.load.plan import Comeback
from tidings_proof.bench.load.reconnects import Returning
from tidings_proof.bench.load.senders import PAUSE_S, Witness, senders
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import folder, own_node, token
from tidings_proof.bench.target.processes import cpu_s
from tidings_proof.bench.target.seeding import group, tables_in
from tidings_proof.bench.target.target import Target

CLAIM = "clients that reconnect at once, each behind in three conversations"
COLUMNS = ["", "caught up s", "clients/s", "CPU us a client", "ack p50 ms", "ack p99 ms", "acks"]
EACH = 3  # conversations of a client
MESSAGES, HAD = 20, 10  # in each conversation, and how many of them a client has
SENDERS = 20
STORM_S = 120.0
COLD, WARM = "keyspace cold", "keyspace warm"


async def seed(data: Path, clients: int) -> None:
    """Conversation `at` has the clients at, at+1 and at+2: everyone is in three."""
    last_ms = int(time.time() * 1000) - 60_000
    async with tables_in(data) as tables:
        for start in range(0, clients, 200):
            numbers = range(start, min(start + 200, clients))
            users = {at: [f"client{(at + ahead) % clients}" for ahead in range(EACH)] for at in numbers}
            await asyncio.gather(*(group(tables, f"c{at}", users[at], MESSAGES, last_ms) for at in numbers))


def comeback(number: int, clients: int) -> Comeback:
    resume = {f"c{(number - back) % clients}": HAD for back in range(EACH)}
    return Comeback(token(f"client{number}"), resume, EACH * (MESSAGES - HAD))


class Storm(msgspec.Struct, frozen=True):
    """When it was, on the monotonic clock, and what it cost."""

    quiet_s: float
    began_s: float
    ended_s: float
    cpu_us: float

    def figures(self, clients: int, witness: Witness) -> dict[str, Any]:
        took_s = self.ended_s - self.began_s
        return {
            "caught_up_s": round(took_s, 3),
            "clients_per_s": round(clients / took_s, 1),
            "cpu_us_per_client": round(self.cpu_us / clients, 1),
            "before": witness.figures((self.quiet_s, self.began_s)),
            "storm": witness.figures((self.began_s, self.ended_s)),
        }


async def storm(server: Target, clients: int, quiet_s: float) -> Storm:
    """A quiet time, then all at once until the last one is caught up. They leave afterwards."""
    tally = Tally()
    coming = [Returning(comeback(number, clients), tally) for number in range(clients)]
    since_s = time.monotonic()
    await asyncio.sleep(quiet_s)
    cpu_before, began_s = cpu_s(server.parts), time.monotonic()
    everyone = asyncio.gather(*(one.run(server.url) for one in coming))
    await passed(tally, asyncio.wait_for(everyone, STORM_S))
    ended_s, cpu_after = time.monotonic(), cpu_s(server.parts)
    used_s = sum(cpu_after[name] - cpu_before[name] for name in cpu_after)
    return Storm(since_s, began_s, ended_s, used_s * 1e6)


def measured(server: Target, clients: int, seconds: float) -> dict[str, Any]:
    with senders(server, SENDERS) as witness:
        storms = {name: uvloop.run(storm(server, clients, seconds)) for name in (COLD, WARM)}
    return {name: one.figures(clients, witness) for name, one in storms.items()}


def checks_of(found: dict[str, Any]) -> list[Check]:
    warm = found[WARM]
    return [
        Check("until all are caught up, keyspace warm", warm["caught_up_s"], "<=", 10, "s"),
        Check("ack p99 of the connected meanwhile", warm["storm"]["ack_p99_ms"], "<=", 500, "ms"),
    ]


def rows(found: dict[str, Any]) -> list[list[str | float]]:
    lines: list[list[str | float]] = []
    for name, one in found.items():
        lines.append([f"{name}: before", "", "", "", *one["before"].values()])
        costs = (one["caught_up_s"], one["clients_per_s"], one["cpu_us_per_client"])
        lines.append([f"{name}: storm", *costs, *one["storm"].values()])
    return lines


def run(given: Any) -> Findings:
    with folder() as data:
        uvloop.run(seed(data, given.clients))
        with own_node(data) as server:
            found = measured(server, given.clients, given.seconds)
    return Findings(
        claim=CLAIM,
        settings={
            "clients": given.clients,
            "conversations_each": EACH,
            "entries_missed_in_each": MESSAGES - HAD,
            "senders": SENDERS,
            "sends_per_s": SENDERS / PAUSE_S,
            "seconds": given.seconds,
        },
        figures=found,
        columns=COLUMNS,
        rows=rows(found),
        checks=checks_of(found),
    )
