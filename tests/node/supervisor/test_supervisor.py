"""Two workers below a supervisor: who answers, what signals do, and what becomes of a worker that dies."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.devices.plain_client import Client
from tests.support.nodes.node_process import NodeProcess
from tests.support.nodes.worker_processes import Workers, needs_linux, total
from tests.support.waiting import eventually

pytestmark = needs_linux


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with Workers(tmp_path / "data") as workers:
        workers.start()
        yield workers


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def is_ready(status: int, body: dict[str, Any]) -> bool:
    return (status, body["status"], body["tables"], body["keyspace"]) == (200, "ready", "up", "up")


async def connected(workers: Workers, user_id: str, device: str) -> Client:
    return await Client(workers.port, workers.token(user_id)).connect(device=device)


async def test_every_worker_answers_for_all(workers: Workers) -> None:
    await eventually(workers.is_whole)
    devices = [await connected(workers, "alice", f"d{n}") for n in range(16)]
    # Each page on a connection of its own, so the kernel chooses the worker. One that is slow to answer is left out.
    await eventually(lambda: {total(workers.metrics(), "tidings_connections") for _ in range(8)} == {16.0})
    await eventually(lambda: is_ready(*workers.rest("GET", "/readyz")))
    top = ("top", "--once", "--json", f"http://127.0.0.1:{workers.port}")
    await eventually(lambda: json.loads(workers.tidings(*top).stdout)["all"]["connections"] == 16)
    for device in devices:
        await device.close()


async def test_a_killed_worker_comes_back_and_counts_do_not_fall(workers: Workers) -> None:
    await eventually(workers.is_whole)
    c = workers.create_group(["alice", "bob"])
    for n in range(8):
        client = await connected(workers, "alice", f"d{n}")
        await client.say(c, f"m{n}", "hello")
        await client.close()
    await eventually(lambda: total(workers.metrics(), "tidings_messages_total") == 8)
    before = workers.pids()
    os.kill(before[0], signal.SIGKILL)
    await eventually(lambda: len(set(workers.pids()) - set(before)) == 1)
    await eventually(workers.is_whole)
    await eventually(lambda: total(workers.metrics(), "tidings_messages_total") == 8)
    assert '"cause": "killed by SIGKILL"' in workers.said()


async def test_sighup_replaces_the_workers_one_after_the_other_and_reads_the_settings_again(tmp_path: Path) -> None:
    file = tmp_path / "tidings.toml"
    file.write_text('members_max = 3\n[log]\nlevel = "info"\n')
    with Workers(tmp_path / "data") as workers:
        workers.start()
        await eventually(workers.is_whole)
        before = workers.pids()
        assert workers.rest("POST", "/v1/conversations", {"kind": "group", "members": ["a", "b", "c"]})[0] == 413
        file.write_text("members_max = 4\n")
        workers.reload()
        await eventually(lambda: "workers replaced" in workers.said())
        await eventually(workers.is_whole)
        assert not set(before) & set(workers.pids()) and len(workers.pids()) == 2
        assert workers.rest("POST", "/v1/conversations", {"kind": "group", "members": ["a", "b", "c"]})[0] == 201


async def test_settings_that_cannot_be_read_leave_the_workers_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "tidings.toml"
    file.write_text("members_max = 3\n")
    with Workers(tmp_path / "data") as workers:
        workers.start()
        await eventually(workers.is_whole)
        before = workers.pids()
        file.write_text("members_max = many\n")
        workers.reload()
        await eventually(lambda: "settings not changed" in workers.said())
        await eventually(workers.is_whole)
        assert workers.pids() == before


async def test_sigterm_drains_all_workers(workers: Workers) -> None:
    await eventually(workers.is_whole)
    devices = [await connected(workers, "alice", f"d{n}") for n in range(8)]
    pids = workers.pids()
    workers.terminate()
    for device in devices:
        assert (await device.event(lambda frame: frame["type"] == "draining"))["reconnect_in_ms"] >= 0
    assert workers.ended() == 0, workers.said()
    assert not any(map(is_running, pids))
    for device in devices:
        await device.close()


async def test_a_worker_that_keeps_dying_stops_the_rest_and_says_why(workers: Workers) -> None:
    await eventually(workers.is_whole)
    victim = workers.pids()[0]
    for death in range(1, 4):
        before = set(workers.pids())
        os.kill(victim, signal.SIGKILL)
        if death < 3:
            await eventually(lambda before=before: bool(set(workers.pids()) - before))  # type: ignore[misc]
            [victim] = set(workers.pids()) - before
    assert workers.ended() == 1
    [line] = [line for line in workers.said().splitlines() if line.startswith("tidings: ")]
    assert "died 3 times within 60 s" in line and "killed by SIGKILL" in line


async def test_workers_leave_when_their_supervisor_is_killed_and_the_next_run_works(workers: Workers) -> None:
    await eventually(workers.is_whole)
    c = workers.create_group(["alice", "bob"])
    pids = workers.pids()
    workers.kill()
    await eventually(lambda: not any(map(is_running, pids)))
    workers.start()
    await eventually(workers.is_whole)
    assert workers.rest("GET", f"/v1/conversations/{c}", user_id="alice")[0] == 200


def test_a_first_worker_that_cannot_start_is_one_line(tmp_path: Path) -> None:
    node = Workers(tmp_path / "data", TIDINGS_KEYSPACE=f"unix://{tmp_path}/nobody.sock")
    answer = node.tidings("serve", "--port", "0", "--workers", "2")
    assert answer.returncode == 1
    [line] = [line for line in answer.stderr.splitlines() if not line.startswith("{")]
    assert line.startswith("tidings: ") and "nobody.sock" in line


def test_a_port_that_another_program_has_is_one_line(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "one") as one:
        one.start()
        answer = Workers(tmp_path / "two").tidings("serve", "--port", str(one.port), "--workers", "2")
        assert answer.returncode == 1 and "the port is in use" in answer.stderr
