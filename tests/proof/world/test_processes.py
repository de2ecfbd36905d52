"""A node as a process: its lives, what is done to it, what it holds."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import SECRET
from tidings_proof.faults.trouble import Trouble
from tidings_proof.people.wire import rest
from tidings_proof.world.ports import free_port
from tidings_proof.world.processes import STALL_MAX, NodeProcess, Stalls, environment, waited_s


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NodeProcess]:
    made = NodeProcess("n0", tmp_path, free_port(), {"TIDINGS_AUTH_SECRET": SECRET})
    yield made
    made.kill()


async def health(node: NodeProcess) -> int:
    return (await rest(node.port, "", "GET", "/healthz"))[0]


async def test_it_is_killed_stopped_drained_and_lives_again(node: NodeProcess) -> None:
    await node.start()
    assert await health(node) == 200 and node.lives == 1
    used = node.usage()
    assert used.rss_bytes > 10 << 20 and used.files > 5
    node.stop()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await health(node)
    node.forgive()
    assert await health(node) == 200
    node.kill()
    assert not node.is_running
    await node.start()
    assert node.lives == 2 and await node.drain(60) == 0


async def test_one_that_is_ending_is_revived(node: NodeProcess) -> None:
    await node.start()
    os.kill(node.pid, signal.SIGTERM)
    while await health_or_none(node) == 200:
        await asyncio.sleep(0.01)
    await node.revive()
    assert await health(node) == 200 and node.lives == 2
    await node.revive()
    assert node.lives == 2


async def health_or_none(node: NodeProcess) -> int | None:
    try:
        return (await rest(node.port, "", "GET", "/readyz"))[0]
    except OSError:
        return None


async def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    node = NodeProcess("n0", tmp_path, free_port(), {"TIDINGS_AUTH_SECRET": "short"})
    node.spawn()
    with pytest.raises(RuntimeError, match=r"auth\.secret"):
        await node.ready()


def test_settings_of_whoever_runs_us_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_KEYSPACE", "redis://production")
    env = environment({"TIDINGS_TABLES": "sqlite"})
    assert "TIDINGS_KEYSPACE" not in env and env["TIDINGS_TABLES"] == "sqlite" and env["PATH"] == os.environ["PATH"]


def test_what_it_suffers_is_told_by_its_file(tmp_path: Path) -> None:
    node = NodeProcess("n0", tmp_path, 1, {})
    node.trouble.change(slow_s=1.0)
    assert node.trouble.read() == Trouble(slow_s=1.0)
    assert node.said() == "" and not node.is_running


def test_the_longest_wait_for_a_processor_counts_and_some_time_always_goes_on() -> None:
    waits = {1: 5.0, 2: 7.0}
    stalls = Stalls(lambda: [1, 2, 3], waits.get)
    assert stalls.since(1.0) == 0, "nothing is known of the time before"
    waits |= {1: 5.2, 2: 7.3}
    assert round(stalls.since(1.0), 3) == 0.3
    waits[1] = 60.0
    assert stalls.since(1.0) == STALL_MAX


def test_a_process_that_is_gone_waited_for_nothing() -> None:
    assert waited_s(1 << 30) is None and (waited_s(os.getpid()) or 0.0) >= 0
