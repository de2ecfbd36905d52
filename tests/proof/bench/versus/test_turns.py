"""Turns: every server in every round, another one first each time, and a wrong answer leaves no figure."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tidings_proof.bench.load.people import Signed
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.versus import turns
from tidings_proof.bench.versus.rivals import QUICK, Rival, Server, Sizes


@contextmanager
def start(data: Path, sizes: Sizes) -> Iterator[Server]:
    yield Server(Target("http://nowhere", Signed("secret")), sizes)


def rivals(*keys: str) -> list[Rival]:
    return [Rival(key, key.title(), "stores nothing", start) for key in keys]


def test_the_servers_take_turns_and_the_median_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[tuple[int, int]] = []
    seen: list[Server] = []

    def prepared(work: str, server: Server) -> list[Any]:
        seen.append(server)
        at = len(seen)

        def turn(number: int) -> dict[str, float]:
            began.append((number, at))
            return {"send": float(number * at)}

        return [turn]

    monkeypatch.setattr(turns, "prepared", prepared)
    outcome = turns.run(rivals("one", "other"), ["send"], 3, QUICK, lambda line: None)
    assert began == [(0, 1), (0, 2), (1, 2), (1, 1), (2, 1), (2, 2)]
    assert turns.medians(outcome.found) == {"send": {"one": 1.0, "other": 2.0}}
    assert turns.figures_of(outcome.found)["send"]["other"] == {"median": 2.0, "rounds": [0.0, 2.0, 4.0]}


def test_a_run_that_is_told_to_end_leaves_its_blocks() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), turns.ends_on_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_spread_is_the_largest_difference_between_two_rounds() -> None:
    assert turns.spread_percent({"send": {"one": [90.0, 110.0], "other": [1.0]}, "idle": {"one": [0.0, 0.0]}}) == 20.0
    assert turns.spread_percent({}) == 0.0


def test_a_wrong_answer_leaves_no_figure_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepared(work: str, server: Server) -> list[Any]:
        def turn(number: int) -> dict[str, float]:
            if number == 1:
                raise RuntimeError("a message came twice")
            return {"send": 1.0}

        return [turn]

    monkeypatch.setattr(turns, "prepared", prepared)
    outcome = turns.run(rivals("one"), ["send"], 2, QUICK, lambda line: None)
    assert outcome.found == {"send": {}}
    assert outcome.failed == {"send: one": "a message came twice"}
