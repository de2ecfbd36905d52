"""One run at a time: whoever asks meanwhile gets the same answer, and nobody waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from tidings.errors import StoreUnavailable
from tidings.messaging.shared import Shared


async def test_those_who_ask_meanwhile_share_a_run_and_the_next_one_is_new() -> None:
    gate, runs = asyncio.Event(), 0

    async def run() -> int:
        nonlocal runs
        runs += 1
        await gate.wait()
        return runs

    shared = Shared(run, 5.0)
    asked = [asyncio.ensure_future(shared()) for _ in range(3)]
    await asyncio.sleep(0)
    asked[0].cancel()  # one who leaves takes nothing from the others
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*asked[1:]) == [1, 1]
    assert await shared() == 2


async def test_a_run_that_takes_too_long_is_given_up_and_the_next_may_try() -> None:
    hangs = True

    async def run() -> str:
        await (asyncio.Event().wait() if hangs else asyncio.sleep(0))
        return "done"

    shared = Shared(run, 0.02)
    with pytest.raises(StoreUnavailable, match=r"0\.02 s"):
        await shared()
    hangs = False
    assert await shared() == "done"


async def test_what_goes_wrong_is_told_to_everyone_who_asked() -> None:
    async def run() -> None:
        raise ValueError("no")

    shared = Shared(run, 1.0)
    answers = await asyncio.gather(shared(), shared(), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ValueError, ValueError]
