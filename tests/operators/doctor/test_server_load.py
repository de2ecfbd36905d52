"""Doctor and top say how busy the one thread of a server is, and what would help: shards, I/O threads or neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.doctor_targets import named, server_of, valkey
from tidings.clock import Clock
from tidings.operators.doctor.keyspace import check_server
from tidings.operators.doctor.server_load import LoadReading, check_load, load_between, read_load, verdict_of


def reading(at_s: float, **sums: Any) -> LoadReading:
    nothing = {"cpu_s": 0.0, "in_bytes": 0, "out_bytes": 0, "commands": 0, "loop_us": 0, "command_us": 0}
    return LoadReading(at_s=at_s, **{**nothing, "io_threads": 1, **sums})


@pytest.mark.parametrize(
    ("cpu", "command_share", "io_threads", "verdict"),
    [
        (0.1, 0.9, 1, "neither"),
        (0.59, 0.1, 1, "neither"),
        (0.9, 0.8, 1, "shard"),
        (0.9, 0.2, 1, "I/O threads"),
        (0.9, 0.2, 0, "I/O threads"),
        (0.9, 0.2, 4, "shard"),
    ],
)
def test_the_verdict_follows_from_the_thread_and_from_what_fills_it(
    cpu: float, command_share: float, io_threads: int, verdict: str
) -> None:
    assert verdict_of(cpu, command_share, io_threads) == verdict


def test_the_load_is_the_difference_of_two_readings() -> None:
    before = reading(10.0, cpu_s=5.0, in_bytes=100, out_bytes=200, commands=10, loop_us=1000, command_us=900)
    now = reading(12.0, cpu_s=6.6, in_bytes=2100, out_bytes=4200, commands=30, loop_us=2000, command_us=1100)
    load = load_between("here", before, now)
    assert (round(load.cpu, 3), load.in_bytes_s, load.out_bytes_s, load.commands_s) == (0.8, 1000, 2000, 10)
    assert load.command_share == 0.2 and load.verdict == "I/O threads"


def test_a_server_that_does_not_tell_its_event_loop_is_taken_to_run_commands() -> None:
    load = load_between("here", reading(0.0), reading(1.0, cpu_s=0.9))
    assert (load.command_share, load.verdict) == (1.0, "shard")


async def test_doctor_names_cpu_network_and_threads_of_a_real_server(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        async with server_of(patient) as server:
            finding = named(await check_server(server, Clock()), "keyspace.cpu")
            for word in ("of a core", "/s in", "/s out", "1 I/O threads"):
                assert word in finding.says
            before = await read_load(server, Clock())
            patient.ask("SET", "k", "v" * 100_000)
            now = await read_load(server, Clock())
            assert before is not None and now is not None
            assert now.in_bytes - before.in_bytes >= 100_000 and now.commands > before.commands
            assert now.io_threads == 1 and 0 <= now.command_us <= now.loop_us


async def test_each_verdict_has_its_fix(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        async with server_of(patient) as server:
            full = check_load(server, reading(0.0), reading(1.0, cpu_s=0.9, loop_us=100, command_us=90))
            chatty = check_load(server, reading(0.0), reading(1.0, cpu_s=0.9, loop_us=100, command_us=10))
            calm = check_load(server, reading(0.0), reading(1.0, cpu_s=0.1, loop_us=100, command_us=10))
            silent = check_load(server, None, None)
    assert full.level == "advice" and full.says.startswith("shard") and "redis+cluster://" in full.fix
    assert chatty.level == "advice" and chatty.says.startswith("I/O threads") and "io-threads 4" in chatty.fix
    assert calm.level == "ok" and "neither" in calm.says
    assert silent.level == "unknown"
