"""Costs stay flat as an installation grows: curves over conversations, members, unread, nodes and batches.

Each curve is CPU (node and Valkey) per operation against one size, everything else kept. An inbox is opened with ever
more conversations; a page is read and a post counted in groups of ever more members; counts are read and marked with
ever more unread; the same load per node is put on one to three nodes; and ever more messages are under way at once,
where batching must make each one cheaper. The report draws one picture for each curve.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tidings_proof.bench.claims import inbox, scale, unread
from tidings_proof.bench.claims.send import pairs_on
from tidings_proof.bench.load.plan import Channel, Measured, Pairs, Plan, Reader, Readers, measure
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, own_node, token
from tidings_proof.bench.target.target import Target, each

CLAIM = "CPU us per operation as one size grows"
COLUMNS = ["curve", "operation", "CPU us by size", "largest / smallest"]
CONVERSATIONS = (20, 200, 2_000)
MEMBERS = (2, 10, 100, 1_000)
IN_FLIGHT = (1, 2, 4, 8, 16)
PAGE = 20
FLAT_MAX = 1.3  # what is meant to be flat: the noise of short runs, no more
WARM_UP_S = 1.0
TEXT = "x" * 64

Points = dict[int, float]  # size -> CPU us


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Lines over one size. `flat`: those of them that must not rise, with how much is noise."""

    title: str
    x_label: str
    lines: dict[str, Points]
    flat: dict[str, float]

    def checks(self) -> list[Check]:
        named = ((name, self.lines[name], most) for name, most in self.flat.items())
        return [
            Check(f"{name}: {max(points):,} over {min(points):,} {self.x_label}", rise(points), "<=", most, "x")
            for name, points, most in named
            if len(points) > 1
        ]


def rise(points: Points) -> float:
    """The largest size's figure over the smallest's."""
    return points[max(points)] / points[min(points)]


def up_to(sizes: Sequence[int], most: int | None) -> list[int]:
    return [size for size in sizes if most is None or size <= most] or [min(sizes)]


def conversations(given: Any) -> Curve:
    points: Points = {}
    sizes = up_to(CONVERSATIONS, given.most)
    with folder() as data:
        asyncio.run(inbox.seed(data, sizes))
        with own_node(data) as server:
            for size in sizes:
                inbox.first_open_ms(server, size)
                points[size] = inbox.measured(server, size, given)[0].cpu_us
    name = "an open of the inbox"
    return Curve(
        title="Opening the inbox", x_label="conversations of the user", lines={name: points}, flat={name: FLAT_MAX}
    )


def members(given: Any) -> Curve:
    """Nobody but the sender and the reader is online. A post is counted for every member, so its share is what counts;
    in small groups a post's own cost weighs more, and the share may only fall."""
    posts: Points = {}
    pages: Points = {}
    with folder() as data, own_node(data) as server:
        for size in up_to(MEMBERS, given.most):
            users = [f"member{size}-{number}" for number in range(size)]
            id_ = server.together("group", users)
            each(lambda user_id: server.call("GET", "/v1/unread", user_id=user_id), users)
            posting = Channel(id_, token(users[0]), {}, TEXT, f"run{size}", 1)
            posts[size] = _measured(server, posting, given).cpu_us / size
            each(lambda n, id_=id_, by=users[0]: server.say(id_, by, f"m{n}", TEXT), range(PAGE))  # type: ignore[misc]
            pages[size] = _measured(server, Readers([Reader(token(users[1]), [_page(id_)])], items=PAGE), given).cpu_us
    lines = {"a post, for each member": posts, "a page of 20": pages}
    return Curve(
        title="A group",
        x_label="members",
        lines=lines,
        flat={"a post, for each member": 1.0, "a page of 20": FLAT_MAX},
    )


def _page(conversation_id: str) -> str:
    return json.dumps({"type": "history", "conversation_id": conversation_id, "before_seq": PAGE + 1, "limit": PAGE})


def _measured(server: Target, load: Channel | Readers | Pairs, given: Any) -> Measured:
    return measure(Plan(url=server.url, parts=server.parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S))


def unreads(given: Any) -> Curve:
    lines: dict[str, Points] = {"reading the count": {}, "marking one read": {}}
    with folder() as data:
        asyncio.run(unread.seed(data))
        with own_node(data) as server:
            for size in up_to(unread.SIZES, given.most):
                unread.warm(server, size)
                for operation, points in zip(("count", "mark one"), lines.values(), strict=True):
                    points[size] = unread.measured(server, operation, size)[1]
    return Curve(title="Unread", x_label="unread messages", lines=lines, flat=dict.fromkeys(lines, 1.5))


def nodes(given: Any) -> Curve:
    """From one node to two a message gets dearer by the bus, which is shown; from two on it is meant to be flat."""
    load = argparse.Namespace(clients=given.clients, rate=200.0, seconds=given.seconds)
    name = "a message"
    points = {count: scale.measured(count, load).cpu_us for count in up_to(scale.COUNTS, given.most)}
    later = {count: us for count, us in points.items() if count > 1}
    lines = {name: points} | ({f"{name}, from two nodes on": later} if len(later) > 1 else {})
    flat = {line: scale.FLAT_MAX for line in lines if line != name}
    return Curve(title="Nodes on shared stores, the same load for each", x_label="nodes", lines=lines, flat=flat)


def batches(given: Any) -> Curve:
    """More under way at once is a larger batch, and each message must cost less."""
    points: Points = {}
    with folder() as data, own_node(data) as server:
        pairs = pairs_on(server, given.clients // 2)
        for in_flight in up_to(IN_FLIGHT, given.most):
            load = Pairs(pairs, TEXT, f"batch{in_flight}", in_flight=in_flight)
            points[in_flight * len(pairs)] = _measured(server, load, given).cpu_us
    name = "a message"
    return Curve(title="Batching", x_label="messages under way at once", lines={name: points}, flat={name: 1.0})


CURVES: dict[str, Callable[[Any], Curve]] = {
    "conversations": conversations,
    "members": members,
    "unread": unreads,
    "nodes": nodes,
    "batches": batches,
}


def run(given: Any) -> Findings:
    curves = {name: curve(given) for name, curve in CURVES.items() if given.only in (None, name)}
    return Findings(
        claim=CLAIM,
        settings={"seconds": given.seconds, "pairs": given.clients // 2, "limits": f"{LIMIT} for every class"},
        figures={name: figures_of(curve) for name, curve in curves.items()},
        columns=COLUMNS,
        rows=[row for name, curve in curves.items() for row in rows(name, curve)],
        checks=[check for curve in curves.values() for check in curve.checks()],
    )


def figures_of(curve: Curve) -> dict[str, Any]:
    """The points for the result file, from which the pictures are drawn too."""
    lines = {name: [[size, round(us, 1)] for size, us in points.items()] for name, points in curve.lines.items()}
    return {"title": curve.title, "x_label": curve.x_label, "y_label": "CPU us", "lines": lines}


def rows(name: str, curve: Curve) -> list[list[str | float]]:
    return [
        [name, line, "  ".join(f"{size:,}: {us:,.0f}" for size, us in points.items()), rise(points)]
        for line, points in curve.lines.items()
    ]
