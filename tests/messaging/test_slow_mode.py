"""Slow mode: one message in `slow_s` on all nodes together; leaders and resends pass."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import RateLimited
from tidings.model import Sent
from tidings.stores.keyspace.call import plain


@pytest.mark.parametrize(
    ("windows", "attempts"), [(3, 100), pytest.param(5, 2_000, marks=pytest.mark.long, id="ten thousand")]
)
async def test_of_many_attempts_on_two_nodes_one_passes_in_each_window(
    a: FaultyNode, b: FaultyNode, group: str, windows: int, attempts: int
) -> None:
    await a.core.rules.change("alice", group, {"slow_s": 3600})
    for window in range(windows):
        tries = [(a, b)[at % 2].submit("bob", group, f"{window}-{at}") for at in range(attempts)]
        answers = await asyncio.gather(*tries)
        assert sum(isinstance(answer, Sent) for answer in answers) == 1
        refused = [answer for answer in answers if isinstance(answer, RateLimited)]
        assert len(refused) == attempts - 1 and all(0 < (one.retry_after_ms or 0) <= 3_600_000 for one in refused)
        await a.command("DEL", a.core.keys.slow(group, "bob"))  # the window is over


@pytest.mark.long
async def test_ten_thousand_attempts_over_real_time_pass_once_in_each_window(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    """All times are of the keyspace's clock. A window begins with the first attempt after the one before, so the last
    attempt is not near the end of a window: a slow machine may begin each window a little late."""
    slow_s = 4
    await a.core.rules.change("alice", group, {"slow_s": slow_s})
    passed: list[int] = []
    attempts, windows = 0, 0.0
    while attempts < 10_000 or windows < 3 or not 0.4 < windows % 1 < 0.9:
        tries = [(a, b)[at % 2].submit("bob", group, f"m{attempts + at}") for at in range(20)]
        answers = await asyncio.gather(*tries)
        attempts += len(answers)
        assert all(isinstance(answer, Sent | RateLimited) for answer in answers)
        passed += [answer.entry.sent_ms for answer in answers if isinstance(answer, Sent)]
        seconds, micros = map(int, await a.keyspace.one(plain(group, "TIME")))
        windows = (seconds * 1000 + micros // 1000 - passed[0]) / (slow_s * 1000)
    assert len(passed) == int(windows) + 1


async def test_a_resend_and_a_leader_pass(a: FaultyNode, group: str) -> None:
    await a.core.rules.change("alice", group, {"slow_s": 3600})
    assert await a.code("bob", group, "m1") == "stored"
    assert await a.code("bob", group, "m1") == "duplicate"
    assert [await a.code("alice", group, f"m{at}") for at in range(3)] == ["stored"] * 3
    assert await a.code("carol", group, "m1") == "stored"
