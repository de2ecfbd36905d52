"""A post in a channel of 100,000 costs at most 1.5 times one in a channel of 1,000, with the same 500 members online.

Two nodes share a Valkey and an SQLite file, and half of those who are online are on each. The channel of 1,000 is just
below the line, so each member is indexed alone, and all of them have looked at their inbox before. An open of the inbox
is compared too: 100 large conversations beside 100 plain ones, each read by its own users.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tidings.clock import Clock
from tidings_proof.bench.load.plan import Channel, Measured, Plan, Reader, Readers, measure
from tidings_proof.bench.report.table import columns_of, row_of
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, token
from tidings_proof.bench.target.processes import Parts
from tidings_proof.bench.target.seeding import group, groups, tables_in
from tidings_proof.bench.target.servers import nodes
from tidings_proof.bench.target.target import Target

CLAIM = "a post and an open of the inbox, with large conversations and without"
PLAIN_MEMBERS = 1_000  # the line of these nodes: one member more is large
USERS = 4
CONNECTIONS = 4
ITEMS = 20
WARM_UP_S = 2.0
TEXT = "x" * 64
OPEN = json.dumps({"type": "inbox", "limit": ITEMS, "cursor": None})
PLAIN, LARGE = "plain", "large"


def readers_of(name: str) -> list[str]:
    return [f"{name}-reader{number}" for number in range(USERS)]


async def seed(data: Path, given: Any) -> None:
    """Two channels whose members are the same people, and the inboxes of the readers."""
    now_ms = Clock().now_ms()
    names = [f"member{number}" for number in range(max(given.members, PLAIN_MEMBERS + 1))]
    async with tables_in(data) as tables:
        await group(tables, PLAIN, names[: min(PLAIN_MEMBERS, given.members)], 1, now_ms)
        await group(tables, LARGE, names, 1, now_ms, large_ms=1)
        for name, large_ms in ((PLAIN, 0), (LARGE, 1)):
            ids = [f"{name}{number}" for number in range(given.conversations)]
            await groups(tables, ids, ["writer", *readers_of(name)], now_ms - 3 * len(ids), large_ms=large_ms)


def posts(servers: list[Target], name: str, given: Any) -> Measured:
    online = [token(f"member{number}") for number in range(1, given.clients + 1)]
    listeners = {server.url: online[at :: len(servers)] for at, server in enumerate(servers)}
    load = Channel(name, token("member0"), listeners, TEXT, f"run-{name}", given.in_flight)
    plan = Plan(url=servers[0].url, parts=_parts(servers), load=load, seconds=given.seconds, warm_up_s=WARM_UP_S)
    return measure(plan)


def opens(servers: list[Target], name: str, given: Any) -> Measured:
    server = servers[0]
    for user_id in readers_of(name):
        page = server.call("GET", f"/v1/inbox?limit={ITEMS}", user_id=user_id)
        assert page["total_unread"] == given.conversations, page["total_unread"]
    asking = [Reader(token(user_id), [OPEN]) for user_id in readers_of(name) for _ in range(CONNECTIONS)]
    load = Readers(asking, items=min(ITEMS, given.conversations))
    return measure(Plan(url=server.url, parts=_parts(servers), load=load, seconds=given.seconds, warm_up_s=WARM_UP_S))


def _parts(servers: list[Target]) -> Parts:
    return {
        "node": [pid for server in servers for pid in server.parts["node"]],
        "valkey": servers[0].parts["valkey"],
    }


def checks_of(found: dict[str, Measured]) -> list[Check]:
    return [
        Check(f"CPU per {what}, large over plain", found[f"{what}, {LARGE}"].cpu_us / found[f"{what}, {PLAIN}"].cpu_us,
              "<=", 1.5, "x")
        for what in ("post", "open")
    ]  # fmt: skip


def run(given: Any) -> Findings:
    found: dict[str, Measured] = {}
    with folder() as data:
        asyncio.run(seed(data, given))
        with nodes(data, 2, TIDINGS_MEMBERS_LARGE=str(PLAIN_MEMBERS)) as servers:
            for number in range(min(PLAIN_MEMBERS, given.members)):
                servers[0].call("GET", "/v1/unread", user_id=f"member{number}")
            for name in (PLAIN, LARGE):
                found[f"post, {name}"] = posts(servers, name, given)
            for name in (PLAIN, LARGE):
                found[f"open, {name}"] = opens(servers, name, given)
    return Findings(
        claim=CLAIM,
        settings={
            "members": {PLAIN: min(PLAIN_MEMBERS, given.members), LARGE: given.members},
            "online": given.clients,
            "nodes": 2,
            "in_flight": given.in_flight,
            "conversations": given.conversations,
            "seconds": given.seconds,
            "warm_up_s": WARM_UP_S,
            "limits": f"{LIMIT} for every class",
        },
        figures={name: one.figures() for name, one in found.items()},
        columns=columns_of("post or open", found[f"post, {PLAIN}"]),
        rows=[row_of(name, one) for name, one in found.items()],
        checks=checks_of(found),
        runs=found,
        unit="post or open",
    )
