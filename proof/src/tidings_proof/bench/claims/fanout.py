"""A post in a channel of 1,000 costs at most 15 us of node CPU per delivery and 45 us of all CPU per indexed member.

Two nodes share a Valkey and an SQLite file; 200 members are online, half of them on each, and one more keeps four posts
under way. Storing and counting a post for every member and handing it to those who are online are two costs, so they
are also measured apart, with one post under way: then none shares its index calls with another. With nobody but the
sender online only the first is there; what a delivery costs is the difference, on both nodes, the bus included.

In a smaller channel everybody is online. There a post is measured once more with receipts: every member acknowledges
every post at once. That may cost the nodes as much again as the post itself. At last every member also marks every post
as read at once, and gets the counts as the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidings_proof.bench.load.plan import Channel, Measured, Plan, Receipts, measure
from tidings_proof.bench.report.table import columns_of, row_of
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, token
from tidings_proof.bench.target.processes import Parts
from tidings_proof.bench.target.servers import nodes
from tidings_proof.bench.target.target import Target

CLAIM = "a channel on two nodes, one sender with four posts under way"
WARM_UP_S = 2.0
ALONE, ONE, FULL = "nobody online, 1 in flight", "1 in flight", "closed loop"
EVERYBODY, RECEIPTS, MARKS = "everybody online, 1 in flight", "everybody online, receipts", "everybody online, read"
PARTS = {"posts": (ALONE, ONE, FULL), "receipts": (EVERYBODY, RECEIPTS, MARKS)}
TEXT = "x" * 64


def channel_on(server: Target, members: int) -> str:
    """All are members, and everyone's inbox is warm: they have looked at it before."""
    names = [f"member{number}" for number in range(members)]
    body = {"kind": "channel", "name": "all", "members": names[1:]}
    conversation_id = str(server.call("POST", "/v1/conversations", body, user_id=names[0])["conversation_id"])
    for name in names:
        server.call("GET", "/v1/unread", user_id=name)
    return conversation_id


def measured(servers: Sequence[Target], given: Any) -> dict[str, Measured]:
    wanted = [name for part, names in PARTS.items() if given.only in (None, part) for name in names]
    channel = channel_on(servers[0], given.members) if ALONE in wanted else ""
    small = channel_on(servers[0], given.clients + 1) if EVERYBODY in wanted else ""
    online = [token(f"member{number}") for number in range(1, given.clients + 1)]
    shares = {server.url: online[at :: len(servers)] for at, server in enumerate(servers)}
    parts: Parts = {
        "node": [pid for server in servers for pid in server.parts["node"]],
        "valkey": servers[0].parts["valkey"],
    }
    loads: dict[str, tuple[str, dict[str, list[str]], int, Receipts]] = {
        ALONE: (channel, {}, 1, "none"),
        ONE: (channel, shares, 1, "none"),
        FULL: (channel, shares, given.in_flight, "none"),
        EVERYBODY: (small, shares, 1, "none"),
        RECEIPTS: (small, shares, 1, "delivered"),
        MARKS: (small, shares, 1, "read"),
    }
    found = {}
    for number, name in enumerate(wanted):
        conversation_id, listeners, in_flight, receipts = loads[name]
        load = Channel(conversation_id, token("member0"), listeners, TEXT, f"run{number}", in_flight, receipts=receipts)
        plan = Plan(url=servers[0].url, parts=parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S)
        found[name] = measure(plan)
    return found


def figures_of(found: dict[str, Measured], given: Any) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    if ALONE in found:
        alone, one, full = found[ALONE], found[ONE], found[FULL]
        delivering_us = one.part_us("node") - alone.part_us("node")
        figures |= {
            "deliveries_per_s": round(full.per_s * given.clients, 1),
            "ack_p50_ms": round(full.p50_ms, 2),
            "ack_p99_ms": round(full.p99_ms, 2),
            "node_us_per_delivery": round(delivering_us / given.clients, 2),
            "cpu_us_per_indexed_member": round(alone.cpu_us / given.members, 2),
            "cpu_us_per_indexed_member_closed_loop": round(full.cpu_us / given.members, 2),
        }
    if EVERYBODY in found:
        plain_us = found[EVERYBODY].part_us("node")
        figures |= {
            "cpu_us_per_delivery_everybody_online": round(found[EVERYBODY].cpu_us / given.clients, 2),
            "node_cpu_with_receipts_over_without": round(found[RECEIPTS].part_us("node") / plain_us, 2),
            "node_cpu_with_reads_over_without": round(found[MARKS].part_us("node") / plain_us, 2),
        }
    return figures | {name: measured.figures() for name, measured in found.items()}


CHECKS = (
    ("node CPU per delivery", "node_us_per_delivery", 15, "us"),
    ("node and Valkey CPU per indexed member", "cpu_us_per_indexed_member", 45, "us"),
    ("node CPU with receipts over without", "node_cpu_with_receipts_over_without", 2, "x"),
    ("node CPU with delivered and read over without", "node_cpu_with_reads_over_without", 2, "x"),
)


def checks_of(figures: dict[str, Any]) -> list[Check]:
    return [Check(name, figures[key], "<=", most, unit) for name, key, most, unit in CHECKS if key in figures]


def run(given: Any) -> Findings:
    with folder() as data, nodes(data, 2, TIDINGS_MEMBERS_LARGE=str(given.members)) as servers:
        found = measured(servers, given)
    figures = figures_of(found, given)
    return Findings(
        claim=CLAIM,
        settings={
            "members": given.members,
            "online": given.clients,
            "nodes": 2,
            "in_flight": given.in_flight,
            "text_bytes": len(TEXT),
            "seconds": given.seconds,
            "warm_up_s": WARM_UP_S,
            "limits": f"{LIMIT} for every class",
            "latency": "until acknowledged; the next post is sent then",
            "members_who_listen": "send no receipts, but where the run says so",
        },
        figures=figures,
        columns=[*columns_of("post", next(iter(found.values()))), "deliveries/s"],
        rows=[[*row_of(name, one), one.per_s * (0 if name == ALONE else given.clients)] for name, one in found.items()],
        checks=checks_of(figures),
        runs=found,
        unit="post",
    )
