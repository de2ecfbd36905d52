"""Workers of the audit stream are killed in the middle of their work: no entry is lost, and none is counted twice."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.messaging.audit_stream import Auditing, audited
from tests.support.paths import PYTHONPATH
from tidings_proof.world.valkey import ValkeyProcess

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = 1_200


@asynccontextmanager
async def worker(url: str, one: Auditing, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Killed at the end of the block, with SIGKILL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.nodes.audit_worker",
        f"worker{len(one.keyspace.runs)}",
        f"{url}?prefix={one.scripts.keys.prefix}",
        *words,
        cwd=ROOT,
        env={"PYTHONPATH": PYTHONPATH},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


async def heard(process: asyncio.subprocess.Process) -> int:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 60)
    assert line, "the worker ended by itself"
    return int(line)


@pytest.fixture
async def one(valkey: ValkeyProcess) -> AsyncIterator[Auditing]:
    async with audited(valkey) as one:
        yield one


async def noted(one: Auditing) -> dict[str, int]:
    sums: dict[str, int] = {}
    for number in range(ENTRIES):
        field = f"reject:send:user{number % 50}"
        one.audit.rejected("send", f"user{number % 50}", number)
        sums[field] = sums.get(field, 0) + number
        if number % 50 == 49:
            await one.audit.flush()
    return sums


async def test_workers_killed_in_the_middle_lose_nothing_and_count_nothing_twice(
    one: Auditing, valkey: ValkeyProcess
) -> None:
    wanted = await noted(one)
    seen = []
    for steps in (3, 17, 40):
        async with worker(valkey.url, one, str(2 * steps)) as process:  # it is at work when the last word is heard
            seen.append(sum([await heard(process) for _ in range(steps)]))
    assert all(seen) and sum(seen) < ENTRIES  # each of them died at work
    before = sum((await one.sums()).values())
    assert 0 < before < sum(wanted.values())
    async with worker(valkey.url, one) as process, asyncio.timeout(60):
        while await one.sums() != wanted:
            await heard(process)
        for _ in range(20):
            await heard(process)
        assert await one.sums() == wanted
    lag = await one.reader.lag()
    assert (lag.waiting, lag.pending, lag.dead) == (0, 0, 0)


async def test_a_worker_killed_between_taking_and_counting_leaves_its_entries_to_another(
    one: Auditing, valkey: ValkeyProcess
) -> None:
    wanted = await noted(one)
    async with worker(valkey.url, one, "hang") as process:
        taken = await heard(process)
    assert taken == 20
    assert await one.count_all() == ENTRIES - taken
    assert (await one.reader.lag()).pending == taken
    survivor = one.worker("survivor", idle_s=0.1)
    async with asyncio.timeout(60):
        while await one.sums() != wanted:
            await survivor.step()
    assert await one.count_all(survivor) == 0
