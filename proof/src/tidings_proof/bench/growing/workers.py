"""The work of `bench send` on one worker and on two, in one run, beside the generator's own share of the machine.

Each number of workers has a node with stores of its own, and the nodes take turns. The figure of a number is the median
of its rounds. There is no target: on a machine with two cores the generator and Valkey need a part of them too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tidings_proof.bench.claims.send import TEXT, pairs_on
from tidings_proof.bench.growing.stores import middle
from tidings_proof.bench.load.plan import Measured, Pair, Pairs, Plan, measure
from tidings_proof.bench.report.table import columns_of, row_of
from tidings_proof.bench.results import Findings
from tidings_proof.bench.target.own_node import LIMIT, folder, own_node
from tidings_proof.bench.target.target import Target

CLAIM = "the same messages on 1 worker and on 2, one embedded Valkey and one SQLite file each"
COUNTS = (1, 2)
WARM_UP_S = 2.0


@contextmanager
def workers(count: int) -> Iterator[Target]:
    """A node of so many workers. The supervisor counts as a part of it."""
    with folder() as data, own_node(data, TIDINGS_WORKERS=str(count)) as server:
        yield server


def measured(servers: dict[int, Target], given: Any) -> dict[int, list[Measured]]:
    pairs = {count: pairs_on(server, given.clients // 2) for count, server in servers.items()}
    found: dict[int, list[Measured]] = {count: [] for count in servers}
    for number in range(given.rounds):
        for count in sorted(servers, reverse=number % 2 == 1):
            found[count].append(_sent(servers[count], pairs[count], number, given))
    return found


def _sent(server: Target, pairs: list[Pair], number: int, given: Any) -> Measured:
    load = Pairs(pairs, TEXT, f"round{number}", in_flight=given.in_flight)
    return measure(Plan(url=server.url, parts=server.parts, load=load, seconds=given.seconds, warm_up_s=WARM_UP_S))


def run(given: Any) -> Findings:
    with ExitStack() as stack:
        found = measured({count: stack.enter_context(workers(count)) for count in COUNTS}, given)
    shown = {f"{count} workers": middle(rounds) for count, rounds in found.items()}
    return Findings(
        claim=CLAIM,
        settings={
            "pairs": given.clients // 2,
            "in_flight": given.in_flight,
            "text_bytes": len(TEXT),
            "rounds": given.rounds,
            "seconds": given.seconds,
            "warm_up_s": WARM_UP_S,
            "limits": f"{LIMIT} for every class",
        },
        figures={f"{count} workers": [one.figures() for one in rounds] for count, rounds in found.items()},
        columns=columns_of("message", next(iter(shown.values()))),
        rows=[row_of(name, one) for name, one in shown.items()],
        checks=[],
        runs=shown,
        unit="message",
    )
