"""The table of trials, and the running of one: against a server that is there, or on a node of its own for the time."""

from __future__ import annotations

from collections.abc import Callable

from tidings.benchmarks import trials_reading, trials_sending
from tidings.benchmarks.own_node import folder, own_node
from tidings.benchmarks.progress import Bars, Quiet
from tidings.benchmarks.target import Target
from tidings.benchmarks.trials import Found, Outcome, Stage, Trial, Wanted, outcome
from tidings.benchmarks.trials_names import ABOUT, CLIENTS, OPTIONS

_RUNS: dict[str, tuple[str, Callable[[Stage], Found]]] = {
    "connect": ("connect", trials_sending.connect),
    "send": ("message", trials_sending.send),
    "fanout": ("post", trials_sending.fanout),
    "inbox": ("open", trials_reading.inbox),
    "history": ("page", trials_reading.history),
    "limiter": ("decision", trials_sending.limiter),
    "resume": ("client", trials_reading.resume),
    "archive": ("page", trials_reading.archive),
}
_NODE = {"limiter": {"TIDINGS_LIMITS_SEND": "20/60s"}}
_SEED = {"archive": trials_reading.seed_archive}

TRIALS: dict[str, Trial] = {
    name: Trial(
        about=ABOUT[name],
        unit=unit,
        run=run,
        clients=CLIENTS[name],
        options=OPTIONS.get(name, ()),
        node=_NODE.get(name, {}),
        seed=_SEED.get(name),
    )
    for name, (unit, run) in _RUNS.items()
}


def run_on(name: str, target: Target, wanted: Wanted, bars: Bars | Quiet) -> Outcome:
    """Against a server that is there already."""
    stage = Stage(target, wanted, bars)
    return outcome(name, TRIALS[name], stage, TRIALS[name].run(stage), is_own_node=False)


def run_alone(name: str, wanted: Wanted, bars: Bars | Quiet) -> Outcome:
    """On a node that is started for it, and its folder, both gone afterwards."""
    trial = TRIALS[name]
    with folder() as data:
        bars.preparing("a node")
        facts = trial.seed(data, wanted) if trial.seed is not None else {}
        with own_node(data, **trial.node) as target:
            stage = Stage(target, wanted, bars)
            found = trial.run(stage)
    return outcome(name, trial, stage, Found(found.runs, facts | found.facts), is_own_node=True)
