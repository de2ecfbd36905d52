"""A message costs the same on three nodes as on two, within 15 %, when each node has the same load.

1, 2 and 3 nodes share a Valkey and an SQLite file, as nodes of one host may. Each takes the same fixed rate from
senders of its own; recipients are spread as a load balancer spreads them: of N nodes, one message in N stays on its
node and the others cross the bus. From 1 to 2 nodes a message therefore gets dearer by the bus, and by commits that the
two nodes no longer share; from 2 to 3 little is added. All nodes' CPU and that of their Valkey counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tidings_proof.bench.load.plan import Measured, Pair, Pairs, Plan, measure
from tidings_proof.bench.report.table import columns_of, row_of
from tidings_proof.bench.results import Check, Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, token
from tidings_proof.bench.target.processes import Parts
from tidings_proof.bench.target.servers import nodes
from tidings_proof.bench.target.target import Target

CLAIM = "1, 2 and 3 nodes on one Valkey and one SQLite file, the same load for each"
COUNTS = (1, 2, 3)
FLAT_MAX = 1.15  # 3 nodes over 2
WARM_UP_S = 3.0
TEXT = "x" * 64


def places(count: int, pairs: int) -> list[tuple[int, int]]:
    """(node of the sender, node of the recipient) of each pair: every combination as often as any other."""
    return [(number % count, number // count % count) for number in range(pairs)]


def crossing(count: int, pairs: int) -> float:
    """The share of messages whose recipient is on another node."""
    return sum(one != other for one, other in places(count, pairs)) / pairs


def pairs_on(servers: Sequence[Target], pairs: int) -> list[Pair]:
    """The conversations are there before the clock runs."""
    found = []
    for number, (one, other) in enumerate(places(len(servers), pairs)):
        sender, recipient = f"sender{number}", f"recipient{number}"
        conversation_id = servers[0].direct(sender, recipient)
        ports = {"sender_url": servers[one].url, "recipient_url": servers[other].url}
        found.append(Pair(token(sender), token(recipient), conversation_id, **ports))
    return found


def measured(count: int, given: Any) -> Measured:
    """So many nodes on fresh stores. The senders of all nodes take turns, so each node gets the same rate."""
    with folder() as data, nodes(data, count) as servers:
        parts: Parts = {
            "node": [pid for server in servers for pid in server.parts["node"]],
            "valkey": servers[0].parts["valkey"],
        }
        load = Pairs(pairs_on(servers, given.clients // 2 * count), TEXT, f"n{count}", rate=given.rate * count)
        plan = Plan(url=servers[0].url, parts=parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S)
        return measure(plan)


def steps_of(found: dict[int, Measured]) -> dict[str, float]:
    """CPU per message over that of the next smaller number of nodes."""
    return {f"{few}_to_{more}": found[more].cpu_us / found[few].cpu_us for few, more in pairwise(sorted(found))}


def checks_of(steps: dict[str, float]) -> list[Check]:
    if "2_to_3" not in steps:
        return []
    return [Check("CPU per message, 3 nodes over 2", steps["2_to_3"], "<=", FLAT_MAX, "x")]


def run(given: Any) -> Findings:
    found = {count: measured(count, given) for count in COUNTS if count <= given.nodes}
    steps, pairs = steps_of(found), given.clients // 2
    cross = {count: crossing(count, pairs * count) for count in found}
    figures: dict[str, Any] = {"cpu_step": {name: round(step, 3) for name, step in steps.items()}}
    figures |= {f"{count} nodes": {"crossing": round(cross[count], 3), **one.figures()} for count, one in found.items()}
    return Findings(
        claim=CLAIM,
        settings={
            "rate_per_node": given.rate,
            "pairs_per_node": pairs,
            "text_bytes": len(TEXT),
            "seconds": given.seconds,
            "warm_up_s": WARM_UP_S,
            "stores": "one Valkey (AOF everysec) and one SQLite file (WAL, FULL) for all nodes",
            "placement": "every combination of the sender's and the recipient's node as often as any other",
            "limits": f"{LIMIT} for every class",
            "recipients": "online, send no receipts",
            "latency": "until acknowledged and received, from the time the message was due",
        },
        figures=figures,
        columns=[*columns_of("message", found[1]), "x fewer nodes", "cross"],
        rows=[
            [*row_of(f"{count} nodes", one), steps.get(f"{count - 1}_to_{count}", ""), f"{cross[count]:.0%}"]
            for count, one in found.items()
        ],
        checks=checks_of(steps),
        runs={f"{count} nodes": one for count, one in found.items()},
        unit="message",
    )
