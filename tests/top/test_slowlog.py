"""Slow commands are those since `top` was started, of a keyspace that can be reached; nothing is started for it."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.patients import settings_for, valkey
from tidings.clock import Clock
from tidings.top.slowlog import open_slowlog


async def test_what_was_slow_since_then_is_told(tmp_path: Path) -> None:
    with valkey(tmp_path, "--slowlog-log-slower-than", "0") as patient:
        async with open_slowlog(settings_for(tmp_path, patient.url), Clock()) as slowlog:
            patient.ask("GET", "a-key")
            slow = await slowlog.read()
            assert slow is not None and ("GET", "a-key") in {(entry.command, entry.key) for entry in slow}


async def test_a_keyspace_that_is_lost_is_not_told_of(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        async with open_slowlog(settings_for(tmp_path, patient.url), Clock()) as slowlog:
            assert await slowlog.read() == ()
            patient.stop()
            assert await slowlog.read() is None
    async with open_slowlog(settings_for(tmp_path, "redis://127.0.0.1:1"), Clock()) as slowlog:
        assert await slowlog.read() is None


async def test_an_embedded_keyspace_that_nobody_runs_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "valkey").mkdir()
    async with open_slowlog(settings_for(tmp_path), Clock()) as slowlog:
        assert await slowlog.read() is None
    assert list((tmp_path / "valkey").iterdir()) == []
