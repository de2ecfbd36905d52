"""The table of trials, and the two ways to run one: on a server that is there, or on a node of its own."""

from __future__ import annotations

from collections.abc import Callable

from tidings_proof.bench.names import Sizes
from tidings_proof.bench.report.progress import Bars, Quiet
from tidings_proof.bench.results import Findings
from tidings_proof.bench.target.own_node import folder, own_node
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.trials import reading, sending
from tidings_proof.bench.trials.trials import Found, Stage, Wanted, findings_of

TRIALS: dict[str, tuple[str, Callable[[Stage], Found]]] = {  # the unit that it counts, and the trial
    "connect": ("connect", sending.connect),
    "send": ("message", sending.send),
    "fanout": ("post", sending.fanout),
    "inbox": ("open", reading.inbox),
    "history": ("page", reading.history),
    "limiter": ("decision", sending.limiter),
    "resume": ("client", reading.resume),
    "archive": ("page", reading.archive),
}


def run_on(name: str, target: Target, sizes: Sizes, bars: Bars | Quiet) -> Findings:
    """On a server that is there already."""
    return findings_of(TRIALS[name][0], sizes, _run(name, target, sizes, bars), target.url)


def run_alone(name: str, sizes: Sizes, bars: Bars | Quiet) -> Findings:
    """On a node that is started for the trial. The node and its folder are gone afterwards."""
    bars.preparing("a node")
    with folder() as data, own_node(data) as target:
        return findings_of(TRIALS[name][0], sizes, _run(name, target, sizes, bars), None)


def _run(name: str, target: Target, sizes: Sizes, bars: Bars | Quiet) -> Found:
    return TRIALS[name][1](Stage(target, Wanted(**sizes), bars))
