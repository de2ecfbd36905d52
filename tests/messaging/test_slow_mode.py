"""Slow mode: one message in `slow_s` on all nodes together; leaders and resends pass."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import RateLimited
from tidings.model import Sent


async def test_of_many_attempts_on_two_nodes_one_passes_in_each_window(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.core.rules.change("alice", group, {"slow_s": 3600})
    for window in range(3):
        tries = [(a, b)[at % 2].submit("bob", group, f"{window}-{at}") for at in range(100)]
        answers = await asyncio.gather(*tries)
        assert sum(isinstance(answer, Sent) for answer in answers) == 1
        refused = [answer for answer in answers if isinstance(answer, RateLimited)]
        assert len(refused) == 99 and all(0 < (one.retry_after_ms or 0) <= 3_600_000 for one in refused)
        await a.command("DEL", a.core.keys.slow(group, "bob"))  # the window is over


@pytest.mark.long
async def test_in_a_time_with_many_attempts_exactly_one_passes_in_each_window(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    """The clock is the keyspace's own: the messages that passed are never closer than slow_s, and never much later."""
    await a.core.rules.change("alice", group, {"slow_s": 1})
    passed: list[int] = []
    attempts = 0
    while len(passed) < 6:
        tries = [(a, b)[at % 2].submit("bob", group, f"{attempts}-{at}") for at in range(20)]
        attempts += 1
        passed += [answer.entry.sent_ms for answer in await asyncio.gather(*tries) if isinstance(answer, Sent)]
    took_ms = passed[-1] - passed[0]
    assert all(later - earlier >= 990 for earlier, later in pairwise(passed))
    assert len(passed) <= took_ms // 1000 + 1 + 1


async def test_a_resend_and_a_leader_pass(a: FaultyNode, group: str) -> None:
    await a.core.rules.change("alice", group, {"slow_s": 3600})
    assert await a.code("bob", group, "m1") == "stored"
    assert await a.code("bob", group, "m1") == "duplicate"
    assert [await a.code("alice", group, f"m{at}") for at in range(3)] == ["stored"] * 3
    assert await a.code("carol", group, "m1") == "stored"
