"""A run of the generator: the window, what it tells of itself, and what fails it. The rest is in test_loads.py."""

from __future__ import annotations

import asyncio

import pytest

from tidings_proof.bench.load.connections import Tally
from tidings_proof.bench.load.generator import Window, passed
from tidings_proof.bench.load.plan import Comebacks, Connects, Plan, Progress


def plan(**more: float) -> Plan:
    return Plan(url="http://h", load=Connects(["t"], 1), **more)  # type: ignore[arg-type]


async def test_a_window_counts_what_was_done_in_it() -> None:
    tally = Tally()
    window = Window(plan(seconds=1.0), tally, lambda progress: None)
    for _ in range(4):
        tally.done(tally.now_s() - 0.002)
    tally.refused = 1
    found = window.close()
    assert (found.units, found.refused, found.cpu_s) == (4, 1, {})
    assert found.p50_ms == pytest.approx(2, rel=0.5) and len(found.quantiles_ms) == 101
    assert found.figures()["refused"] == 1 and "cpu_us" not in found.figures()
    assert [round(moment.per_s * moment.at_s) for moment in found.moments] == [4]


async def test_the_share_of_a_run_includes_its_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings_proof.bench.load.generator.TOLD_S", 0.001)
    told: list[Progress] = []
    heard = asyncio.Event()

    def hear(progress: Progress) -> None:
        told.append(progress)
        heard.set()

    window = Window(plan(seconds=0.04, warm_up_s=100.0), Tally(), hear)
    watching = asyncio.create_task(window.watch(), name="watch")
    await asyncio.wait_for(heard.wait(), 60)
    watching.cancel()
    assert told[0].phase == "measuring" and told[0].share is not None and told[0].share > 0.9


async def test_a_load_with_an_end_of_its_own_has_no_share() -> None:
    window = Window(Plan(url="http://h", load=Comebacks([])), Tally(), lambda progress: None)
    assert window._share() is None


async def test_a_failure_ends_the_window_at_once() -> None:
    tally = Tally()
    tally.fail("wrong")
    with pytest.raises(RuntimeError, match="wrong"):
        await asyncio.wait_for(passed(tally, asyncio.Event().wait()), 60)


async def test_what_fails_while_it_is_waited_for_fails_the_run() -> None:
    async def broken() -> None:
        raise TimeoutError("too late")

    with pytest.raises(TimeoutError, match="too late"):
        await passed(Tally(), broken())
