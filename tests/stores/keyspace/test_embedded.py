"""The embedded Valkey: private, alone on its folder, back after every crash, gone after every stop."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import eventually
from tidings.bounds import VALKEY_MEMORY_SHARE
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace import embedded as keyspace_embedded
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.embedded import EmbeddedValkey, memory_bytes
from tidings.stores.keyspace.embedded_folder import DataInUse, ValkeyFolder, running_socket
from tidings.stores.keyspace.server import open_keyspace

# A node that starts its Valkey, says its pid, and waits to be killed.
NODE = """
import asyncio, sys
from pathlib import Path
from tidings.clock import Clock
from tidings.stores.keyspace import embedded as keyspace_embedded

async def main():
    valkey = await keyspace_embedded.EmbeddedValkey.start(Path(sys.argv[1]), Clock())
    print(valkey.pid, flush=True)
    await asyncio.Event().wait()

if "orphan" in sys.argv:
    keyspace_embedded.PR_SET_PDEATHSIG = 0  # as on systems where a child does not hear of its parent's end
if "uvloop" in sys.argv:
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


def workers(data: Path) -> list[int]:
    return ValkeyFolder(data / "valkey", -1).workers()


async def ask(url: str, *words: str) -> Any:
    keyspace = await open_keyspace(url, (), Clock())
    try:
        return await keyspace.one(plain("", *words))
    finally:
        await keyspace.close()


@contextmanager
def node(data: Path, *how: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Another process that runs the Valkey of this folder; its pid and the server's."""
    process = subprocess.Popen([sys.executable, "-c", NODE, str(data), *how], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


async def test_it_answers_keeps_its_data_and_leaves_nothing_running(tmp_path: Path) -> None:
    valkey = await EmbeddedValkey.start(tmp_path, Clock())
    assert running_socket(tmp_path) == valkey.url
    assert workers(tmp_path) == [valkey.pid]
    await ask(valkey.url, "SET", "k", "v")
    await valkey.stop()
    assert workers(tmp_path) == [] and running_socket(tmp_path) is None
    again = await EmbeddedValkey.start(tmp_path, Clock())
    assert await ask(again.url, "GET", "k") == b"v"
    await again.stop()


async def test_it_listens_on_no_port_and_never_evicts(tmp_path: Path) -> None:
    valkey = await EmbeddedValkey.start(tmp_path, Clock())
    info = (await ask(valkey.url, "INFO", "everything")).decode()
    await valkey.stop()
    for fact in ("tcp_port:0", "maxmemory_policy:noeviction", "aof_enabled:1"):
        assert f"{fact}\r\n" in info


async def test_its_memory_is_bounded_so_that_writes_are_refused_before_the_machine_is_full(tmp_path: Path) -> None:
    valkey = await EmbeddedValkey.start(tmp_path, Clock())
    info = (await ask(valkey.url, "INFO", "memory")).decode().splitlines()
    await valkey.stop()
    [limit] = [int(line.partition(":")[2]) for line in info if line.startswith("maxmemory:")]
    assert 0 < limit == int(VALKEY_MEMORY_SHARE * memory_bytes())


async def test_folders_are_0700_and_files_0600(tmp_path: Path) -> None:
    valkey = await EmbeddedValkey.start(tmp_path / "data", Clock())
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").rglob("*")}
    is_folder = {path: path.is_dir() for path in found}
    await valkey.stop()
    assert {path.name for path in found} >= {"valkey", "appendonlydir", "valkey.sock", "valkey.log", "lock"}
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    for path, mode in found.items():
        assert mode == (0o700 if is_folder[path] else 0o600), path


async def test_a_second_start_on_the_folder_is_refused_with_the_url_to_use(tmp_path: Path) -> None:
    with node(tmp_path) as (_, pid):
        with pytest.raises(DataInUse) as caught:
            await EmbeddedValkey.start(tmp_path, Clock())
        line = str(caught.value)
        assert line.endswith(f"TIDINGS_KEYSPACE=unix://{tmp_path}/valkey/valkey.sock") and "\n" not in line
        assert await ask(caught.value.url, "PING") == b"PONG"
        assert workers(tmp_path) == [pid]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent ended")
async def test_the_server_goes_with_a_killed_node(tmp_path: Path, loop: str) -> None:
    with node(tmp_path, loop) as (process, pid):
        await ask(f"unix://{tmp_path}/valkey/valkey.sock", "SET", "k", "v")
        assert workers(tmp_path) == [pid]
        process.kill()
        await eventually(lambda: not workers(tmp_path))
    valkey = await EmbeddedValkey.start(tmp_path, Clock())
    assert await ask(valkey.url, "GET", "k") == b"v"
    await valkey.stop()


async def test_an_orphan_is_ended_and_its_data_taken_over(tmp_path: Path) -> None:
    with node(tmp_path, "orphan") as (process, pid):
        await ask(f"unix://{tmp_path}/valkey/valkey.sock", "SET", "k", "v")
        process.kill()
        process.wait()
        assert workers(tmp_path) == [pid]
        valkey = await EmbeddedValkey.start(tmp_path, Clock())
    assert workers(tmp_path) == [valkey.pid] and valkey.pid != pid
    assert await ask(valkey.url, "GET", "k") == b"v"
    await valkey.stop()


async def test_an_orphan_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace_embedded, "VALKEY_STOP_S", 0.3)
    with node(tmp_path, "orphan") as (process, pid):
        os.kill(pid, signal.SIGSTOP)
        process.kill()
        process.wait()
        valkey = await EmbeddedValkey.start(tmp_path, Clock())
    assert workers(tmp_path) == [valkey.pid] and valkey.pid != pid
    await valkey.stop()


async def test_a_start_after_the_node_and_its_server_were_killed_just_works(tmp_path: Path) -> None:
    socket = tmp_path / "valkey" / "valkey.sock"
    with node(tmp_path, "orphan") as (process, pid):
        await ask(f"unix://{socket}", "SET", "k", "v")
        process.kill()
        os.kill(pid, signal.SIGKILL)
        process.wait()
        await eventually(lambda: not workers(tmp_path))
    assert socket.exists(), "the stale socket is what this start must cope with"
    valkey = await EmbeddedValkey.start(tmp_path, Clock())
    assert await ask(valkey.url, "GET", "k") == b"v"
    await valkey.stop()


async def stopped_with_aof(data: Path) -> Path:
    """A stopped server's newest AOF file, with two keys in it."""
    valkey = await EmbeddedValkey.start(data, Clock())
    for name in ("first", "last"):
        await ask(valkey.url, "SET", name, "value")
    await valkey.stop()
    return next((data / "valkey" / "appendonlydir").glob("*.incr.aof"))


async def test_a_cut_aof_is_loaded_up_to_the_cut(tmp_path: Path) -> None:
    aof = await stopped_with_aof(tmp_path)
    os.truncate(aof, aof.stat().st_size - 5)
    valkey = await EmbeddedValkey.start(tmp_path, Clock())
    assert await ask(valkey.url, "GET", "first") == b"value"
    assert await ask(valkey.url, "GET", "last") is None
    await valkey.stop()


async def test_an_aof_that_cannot_be_read_is_set_aside(tmp_path: Path) -> None:
    aof = await stopped_with_aof(tmp_path)
    aof.write_bytes(b"this is not a log of commands\r\n" * 100)
    valkey = await EmbeddedValkey.start(tmp_path, Clock())
    assert await ask(valkey.url, "DBSIZE") == 0
    await valkey.stop()
    assert (tmp_path / "valkey" / "appendonlydir.broken" / aof.name).exists()


async def test_a_server_that_dies_is_started_again_and_the_keyspace_comes_back(tmp_path: Path) -> None:
    valkey = await EmbeddedValkey.start(tmp_path, Clock())
    keyspace = await open_keyspace(valkey.url, (), Clock())
    told: list[tuple[str, str]] = []
    keyspace.on_epoch(lambda old, new: told.append((old, new)))
    first_pid, first_epoch = valkey.pid, keyspace.epoch("k")
    await keyspace.one(plain("k", "SET", "k", "v"))
    os.kill(first_pid, signal.SIGKILL)
    await eventually(lambda: bool(told))
    assert told == [(first_epoch, keyspace.epoch("k"))]
    assert await keyspace.one(plain("k", "GET", "k")) == b"v"
    assert workers(tmp_path) == [valkey.pid] and valkey.pid != first_pid
    await keyspace.close()
    await valkey.stop()


async def test_a_crash_loop_slows_down_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    valkey = await EmbeddedValkey.start(tmp_path, Clock())
    monkeypatch.setattr(keyspace_embedded, "_arguments", lambda folder: ["--no-such-setting", "1"])
    os.kill(valkey.pid, signal.SIGKILL)
    await eventually(lambda: caplog.text.count("restart failed") >= 3)
    pauses = [vars(record)["restart_in_s"] for record in caplog.records if hasattr(record, "restart_in_s")]
    assert pauses[:3] == [0.1, 0.2, 0.4]
    await valkey.stop()
    assert workers(tmp_path) == [] and running_socket(tmp_path) is None


async def test_a_server_that_cannot_start_says_why_and_frees_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(keyspace_embedded, "_arguments", lambda folder: ["--no-such-setting", "1"])
        with pytest.raises(Unavailable, match=r"did not start: .*Bad directive"):
            await EmbeddedValkey.start(tmp_path, Clock())
    valkey = await EmbeddedValkey.start(tmp_path, Clock())
    await valkey.stop()


async def test_a_start_that_is_cancelled_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> bytes:
        return b"-LOADING"

    monkeypatch.setattr(keyspace_embedded, "_ask", never)
    starting = asyncio.ensure_future(EmbeddedValkey.start(tmp_path, Clock()))
    await eventually(lambda: (tmp_path / "valkey" / "valkey.sock").exists())
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert workers(tmp_path) == [] and running_socket(tmp_path) is None


def test_a_server_on_the_path_is_taken_where_the_wheel_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="put valkey-server on PATH"):
        keyspace_embedded.find_binary()
    server = tmp_path / "valkey-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o700)
    assert keyspace_embedded.find_binary() == server
