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

from bench.common import Check, command_of, options, result, show, token, write
from bench.servers import Server, folder, nodes
from tidings.benchmarks.own_node import LIMIT
from tidings.benchmarks.plan import Measured, Pair, Pairs, Plan, measure
from tidings.benchmarks.processes import Parts

NAME = "scale"
CLAIM = "1, 2 and 3 nodes on one Valkey and one SQLite file, the same load for each"
COLUMNS = ("nodes", "msg/s", "CPU us", "node us", "Valkey us", "x fewer", "cross", "p50 ms", "p99 ms", "generator")
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


def pairs_on(servers: Sequence[Server], pairs: int) -> list[Pair]:
    """The conversations are there before the clock runs."""
    found = []
    for number, (one, other) in enumerate(places(len(servers), pairs)):
        sender, recipient = f"sender{number}", f"recipient{number}"
        conversation_id = servers[0].direct(sender, recipient)
        ports = {"sender_url": servers[one].url, "recipient_url": servers[other].url}
        found.append(Pair(token(sender), token(recipient), conversation_id, **ports))
    return found


def run(count: int, given: Any) -> Measured:
    """So many nodes on fresh stores. The senders of all nodes take turns, so each node gets the same rate."""
    with folder() as data, nodes(data, count) as servers:
        parts: Parts = {
            "node": [pid for server in servers for pid in server.parts["node"]],
            "valkey": servers[0].parts["valkey"],
        }
        load = Pairs(pairs_on(servers, given.pairs * count), TEXT, f"n{count}", rate=given.rate * count)
        plan = Plan(url=servers[0].url, parts=parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S)
        return measure(plan)


def steps_of(found: dict[int, Measured]) -> dict[str, float]:
    """CPU per message over that of the next smaller number of nodes."""
    return {f"{few}_to_{more}": found[more].cpu_us / found[few].cpu_us for few, more in pairwise(sorted(found))}


def checks_of(steps: dict[str, float]) -> list[Check]:
    if "2_to_3" not in steps:
        return []
    return [Check("CPU per message, 3 nodes over 2", steps["2_to_3"], "<=", FLAT_MAX, "x")]


def row(count: int, one: Measured, steps: dict[str, float], pairs: int) -> tuple[object, ...]:
    step: object = steps.get(f"{count - 1}_to_{count}", "")
    costs = (one.cpu_us, one.part_us("node"), one.part_us("valkey"))
    cross = f"{crossing(count, pairs * count):.0%}"
    return count, one.per_s, *costs, step, cross, one.p50_ms, one.p99_ms, one.generator_share


def main(words: Sequence[str] | None = None) -> None:
    parser = options(NAME, __doc__, seconds=15)
    parser.add_argument("--rate", type=float, default=200.0, help="messages a second for each node (%(default)s)")
    parser.add_argument("--pairs", type=int, default=36, help="pairs of users for each node (%(default)s)")
    parser.add_argument("--nodes", type=int, default=max(COUNTS), choices=COUNTS, help="up to so many (%(default)s)")
    given = parser.parse_args(words)
    found = {count: run(count, given) for count in COUNTS if count <= given.nodes}
    steps = steps_of(found)
    settings = {
        "rate_per_node": given.rate,
        "pairs_per_node": given.pairs,
        "text_bytes": len(TEXT),
        "seconds": given.seconds,
        "warm_up_s": WARM_UP_S,
        "stores": "one Valkey (AOF everysec) and one SQLite file (WAL, FULL) for all nodes",
        "placement": "every combination of the sender's and the recipient's node as often as any other",
        "limits": f"{LIMIT} for every class",
        "recipients": "online, send no receipts",
        "latency": "until acknowledged and received, from the time the message was due",
    }
    figures: dict[str, Any] = {"cpu_step": {name: round(step, 3) for name, step in steps.items()}}
    figures |= {
        f"{count} nodes": {"crossing": round(crossing(count, given.pairs * count), 3), **one.figures()}
        for count, one in found.items()
    }
    finished = result(command_of(NAME, parser, given), CLAIM, settings, figures, checks_of(steps))
    show(finished, COLUMNS, [row(count, one, steps, given.pairs) for count, one in found.items()])
    write(finished, given.out)


if __name__ == "__main__":
    main()
