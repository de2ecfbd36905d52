"""What the doctor's tests look at: a Valkey with any settings, tables, a disk that is full or may not be written."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tidings.clock import Clock
from tidings.config.settings import Auth, Settings
from tidings.operators.doctor.servers import Server, open_servers
from tidings.stores.findings import Finding
from tidings_proof.world.valkey import ValkeyProcess, start_valkey

SECRET = "f3b1c8a0d94e6275b1c07aa94e1d22c6f0958d3be7a4416c"


def settings_for(folder: Path, keyspace: str = "embedded") -> Settings:
    folder.chmod(0o700)
    return dataclasses.replace(Settings(), data=folder, keyspace=keyspace, auth=Auth(secret=SECRET))


@contextmanager
def valkey(folder: Path, *args: str) -> Iterator[ValkeyProcess]:
    """A server of its own, with an AOF unless the arguments say otherwise."""
    server = start_valkey(folder / "v", args=("--appendonly", "yes", *args))
    try:
        yield server
    finally:
        server.stop()


@asynccontextmanager
async def server_of(patient: ValkeyProcess) -> AsyncIterator[Server]:
    async with open_servers(settings_for(patient.folder, patient.url), Clock()) as found:
        (server,) = found.servers
        yield server


def named(findings: Iterable[Finding], name: str) -> Finding:
    """The one worst finding of that name."""
    found = [finding for finding in findings if finding.name == name]
    assert found, f"nothing is said of {name}"
    return max(found, key=lambda finding: ("ok", "unknown", "advice", "wrong").index(finding.level))


@contextmanager
def small_disk(folder: Path, size: str = "2m") -> Iterator[Path]:
    """A file system of its own. Needs root; otherwise the test is skipped by name."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        pytest.skip("a small tmpfs can only be mounted by root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """To the last byte."""
    with (folder / "ballast").open("wb", buffering=0) as ballast:
        try:
            while ballast.write(b"\0" * 4096):
                pass
        except OSError:
            return


def make_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def seed(server: ValkeyProcess, keys: int, *, start: int = 0) -> None:
    """Small keys as Tidings makes them, half of each kind, in steps that no client would notice."""
    script = (
        "for i = ARGV[1], ARGV[2] - 1 do "
        "if i % 2 == 0 then redis.call('ZADD', 'inbox:{u' .. i .. '}', i, 'd-' .. i) "
        "else redis.call('HSET', 'mark:{u' .. i .. '}', 'd-' .. i, '[1,0,0,1,1,0,0,[]]') end end"
    )
    step = 20_000
    for at in range(start, start + keys, step):
        server.ask("EVAL", script, 0, at, min(at + step, start + keys))


def seed_members(server: ValkeyProcess, key: str, members: int) -> None:
    script = "for i = ARGV[1], ARGV[2] do redis.call('ZADD', KEYS[1], 1700000000000 + i, i) end"
    for at in range(1, members, 20_000):
        server.ask("EVAL", script, 1, key, at, min(at + 19_999, members))
