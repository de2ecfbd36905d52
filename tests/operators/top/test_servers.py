"""Slow commands and load are those since `top` was started, of a keyspace that can be reached; none is started."""

from __future__ import annotations

from pathlib import Path

from tests.support.doctor_targets import settings_for, valkey
from tidings.clock import Clock
from tidings.operators.top.servers import watch_servers


async def test_what_was_slow_since_then_is_told(tmp_path: Path) -> None:
    with valkey(tmp_path, "--slowlog-log-slower-than", "0") as patient:
        async with watch_servers(settings_for(tmp_path, patient.url), Clock()) as servers:
            patient.ask("GET", "a-key")
            slow = await servers.slow_commands()
            assert slow is not None and ("GET", "a-key") in {(entry.command, entry.key) for entry in slow}


async def test_a_keyspace_that_is_lost_is_not_told_of(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        async with watch_servers(settings_for(tmp_path, patient.url), Clock()) as servers:
            assert await servers.slow_commands() == ()
            patient.stop()
            assert await servers.slow_commands() is None
    async with watch_servers(settings_for(tmp_path, "redis://127.0.0.1:1"), Clock()) as servers:
        assert await servers.slow_commands() is None


async def test_an_embedded_keyspace_that_nobody_runs_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "valkey").mkdir()
    async with watch_servers(settings_for(tmp_path), Clock()) as servers:
        assert await servers.slow_commands() is None
    assert list((tmp_path / "valkey").iterdir()) == []


async def test_the_load_of_a_server_is_known_from_the_second_view_on(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        async with watch_servers(settings_for(tmp_path, patient.url), Clock()) as servers:
            assert await servers.loads() == ()
            patient.ask("SET", "k", "v" * 100_000)
            (load,) = await servers.loads()
            assert load.in_bytes_s > 0 and load.commands_s > 0 and load.io_threads == 1
            patient.stop()
            assert await servers.loads() == ()
