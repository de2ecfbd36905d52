"""The loop of a simulation: virtual time, one order for one seed, and parties that are dead for good."""

from __future__ import annotations

import asyncio
import random

import pytest

from tidings_proof.simulation.loop import OutOfSteps, SimLoop


def loop_of(seed: int, steps_max: int = 10_000) -> SimLoop:
    return SimLoop(random.Random(seed), steps_max)  # type: ignore[abstract]


def test_an_hour_passes_at_once() -> None:
    loop = loop_of(1)
    loop.run(loop.elapse(3600))
    assert loop.time() == 3600


def walked(seed: int) -> list[str]:
    """Two parties that take ten steps each; who goes on is the seed's choice."""
    loop, order = loop_of(seed), []

    async def walk(name: str) -> None:
        for _ in range(10):
            order.append(name)
            await asyncio.sleep(0)

    async def both() -> None:
        parties = [loop.party(name, lambda: None) for name in "ab"]
        tasks = [party.context.copy().run(loop.create_task, walk(party.name)) for party in parties]
        await asyncio.gather(*tasks)

    loop.run(both())
    return order


def test_a_seed_decides_who_goes_on() -> None:
    assert walked(1) == walked(1) and len({tuple(walked(seed)) for seed in range(5)}) > 1


def test_a_party_that_died_goes_on_no_more() -> None:
    loop, done, died = loop_of(1), [], []
    party = loop.party("node", lambda: died.append(True))

    async def work() -> None:
        done.append(1)
        await loop.elapse(1)
        done.append(2)

    async def play() -> None:
        task = party.context.copy().run(loop.create_task, work())
        await loop.elapse(0.5)
        loop.bury(party)
        await loop.elapse(5)
        assert not task.done()

    loop.run(play())
    assert done == [1] and died == [True]


def test_a_schedule_without_an_end_is_noticed() -> None:
    async def forever() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(OutOfSteps):
        loop_of(1, 100).run(forever())
