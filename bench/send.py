"""A durable message costs at most 220 us of CPU, and a fourth of what the textbook server needs.

100 pairs of users, one of each sends 64-byte texts, four in flight; a message counts when it is committed (SQLite,
synchronous=FULL), acknowledged and received. Messages of one conversation that are under way together share their
keyspace calls, so the same is measured with one in flight, where nothing is shared within a conversation; then at a
fixed 500 a second, with latency from the time at which the message was due. The textbook server (textbook.py) does the
same work after it, with the same generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.common import Check, command_of, options, result, show, token, write
from bench.servers import Server, folder, textbook, tidings
from tidings.benchmarks.own_node import LIMIT
from tidings.benchmarks.plan import Measured, Pair, Pairs, Plan, measure

NAME = "send"
CLAIM = "200 sockets in 100 pairs, durable, acknowledged and received"
COLUMNS = ("server: load", "msg/s", "CPU us", "x ours", "node us", "Valkey us", "p50 ms", "p99 ms", "generator")
WARM_UP_S = 3.0
RATE = 500.0
CLOSED, SINGLE, FIXED = "closed loop", "1 in flight", "500/s"
TEXT = "x" * 64
SERVERS = {"tidings": tidings, "textbook": textbook}


def pairs_on(server: Server, count: int) -> list[Pair]:
    """The conversations are there before the clock runs."""
    found = []
    for number in range(count):
        sender, recipient = f"sender{number}", f"recipient{number}"
        conversation_id = server.direct(sender, recipient)
        found.append(Pair(token(sender), token(recipient), conversation_id))
    return found


def run(server: Server, given: Any) -> dict[str, Measured]:
    """The loads one after another on one server. Each has message ids of its own."""
    pairs = pairs_on(server, given.pairs)
    loads = {
        CLOSED: Pairs(pairs, TEXT, "closed", in_flight=given.in_flight),
        SINGLE: Pairs(pairs, TEXT, "single", in_flight=1),
        FIXED: Pairs(pairs, TEXT, "fixed", rate=RATE),
    }
    plans = {
        name: Plan(url=server.url, parts=server.parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S)
        for name, load in loads.items()
    }
    return {name: measure(plan) for name, plan in plans.items()}


def checks_of(found: dict[str, dict[str, Measured]]) -> list[Check]:
    """None about a server that was left out."""
    ours, theirs = found.get("tidings"), found.get("textbook")
    if ours is None:
        return []
    checks = [
        Check("CPU per message, closed loop", ours[CLOSED].cpu_us, "<=", 220, "us"),
        Check(f"p50 at {FIXED}", ours[FIXED].p50_ms, "<=", 3, "ms"),
        Check(f"CPU per message at {FIXED}", ours[FIXED].cpu_us, "<=", 700, "us"),
    ]
    if theirs is not None:
        ratio = theirs[CLOSED].cpu_us / ours[CLOSED].cpu_us
        checks.append(Check("textbook's CPU per message over ours, closed loop", ratio, ">=", 4, "x"))
    return checks


def ratios_of(found: dict[str, dict[str, Measured]]) -> dict[str, float]:
    """The textbook's CPU per message over ours, under each load: what batching saves depends on what is under way."""
    ours, theirs = found.get("tidings", {}), found.get("textbook", {})
    return {load: round(theirs[load].cpu_us / ours[load].cpu_us, 2) for load in ours if load in theirs}


def row(name: str, load: str, one: Measured, ratios: dict[str, float]) -> tuple[object, ...]:
    times: object = ratios.get(load, "") if name == "textbook" else ""
    parts = (one.part_us("node"), one.part_us("valkey"))
    return f"{name}: {load}", one.per_s, one.cpu_us, times, *parts, one.p50_ms, one.p99_ms, one.generator_share


def main(words: Sequence[str] | None = None) -> None:
    parser = options(NAME, __doc__, seconds=15)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--in-flight", type=int, default=4)
    parser.add_argument("--only", choices=list(SERVERS), help="one server alone")
    given = parser.parse_args(words)
    found: dict[str, dict[str, Measured]] = {}
    for name, serve in SERVERS.items():
        if given.only in (None, name):
            with folder() as data, serve(data) as server:
                found[name] = run(server, given)
    settings = {
        "pairs": given.pairs,
        "in_flight": given.in_flight,
        "text_bytes": len(TEXT),
        "seconds": given.seconds,
        "warm_up_s": WARM_UP_S,
        "limits": f"{LIMIT} for every class: the limiter is asked, and refuses nobody",
        "recipients": "online, send no receipts",
        "latency": "until acknowledged and received; at a fixed rate from the time the message was due",
        "textbook": "SQLite WAL and FULL, Valkey AOF everysec, token not checked",
    }
    ratios = ratios_of(found)
    figures: dict[str, Any] = {"textbook_over_tidings": ratios}
    figures |= {name: {load: one.figures() for load, one in loads.items()} for name, loads in found.items()}
    finished = result(command_of(NAME, parser, given), CLAIM, settings, figures, checks_of(found))
    rows = [row(name, load, one, ratios) for name, loads in found.items() for load, one in loads.items()]
    show(finished, COLUMNS, rows)
    write(finished, given.out)


if __name__ == "__main__":
    main()
