"""Work that nobody waits for is bounded and quiet."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.valkey import eventually
from tidings.errors import Unavailable
from tidings.messaging.errands import Errands


async def test_work_past_the_bound_is_dropped() -> None:
    errands, gate, done = Errands(2), asyncio.Event(), list[int]()

    async def work(number: int) -> None:
        await gate.wait()
        done.append(number)

    assert [errands.run(work(number), "work") for number in range(3)] == [True, True, False]
    gate.set()
    await eventually(lambda: len(errands) == 0)
    assert done == [0, 1]


async def test_trouble_of_the_stores_is_a_debug_line_and_our_mistake_an_error(caplog: pytest.LogCaptureFixture) -> None:
    errands = Errands(10)

    async def fail(error: Exception) -> None:
        raise error

    with caplog.at_level(logging.DEBUG, "tidings.signals"):
        errands.run(fail(Unavailable("no answer")), "presence")
        errands.run(fail(KeyError("x")), "typing")
        await eventually(lambda: len(errands) == 0)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("DEBUG", "presence was dropped: no answer"),
        ("ERROR", "typing failed"),
    ]


async def test_closing_ends_what_is_under_way() -> None:
    errands, is_ended = Errands(10), asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            is_ended.set()

    errands.run(wait(), "wait")
    await asyncio.sleep(0)
    await errands.close()
    assert is_ended.is_set()
    assert len(errands) == 0
