"""A node as a process of its own, which can be killed, stopped, drained and started again on the same place."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidings.clock import Clock
from tidings_proof.faults.trouble import VARIABLE, Trouble, TroubleFile
from tidings_proof.sabotage.launcher import PARENT

READY_S = 300.0  # a node waits for stores in trouble, and a busy machine is slow: one that never starts is a defect
STALL_MAX = 0.9  # of any time: so much may be a stall
_POLL_S = 0.02


class Usage(NamedTuple):
    """Usage: what a process holds; zeros where the system does not tell."""

    rss_bytes: int
    files: int


class NodeProcess:
    """NodeProcess: one `tidings serve`, whose port and folder stay the same over all its lives."""

    def __init__(self, name: str, folder: Path, port: int, env: Mapping[str, str], plants: Sequence[str] = ()) -> None:
        self.name = name
        self.port = port
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self.lives = 0
        self.trouble = TroubleFile(folder / f"{name}.trouble")
        self.changed: dict[str, str] = {}  # settings of its next life that are not as usual
        self._env = {**env, VARIABLE: str(folder / f"{name}.trouble")}
        self._plants = tuple(plants)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Ready to answer. A node that finds no keyspace ends, and whoever runs it starts it again: so do we."""
        clock = Clock()
        deadline_s = clock.monotonic_s() + READY_S
        while True:
            self.spawn()
            try:
                return await self.ready(deadline_s - clock.monotonic_s())
            except RuntimeError:
                if self.is_running or clock.monotonic_s() > deadline_s:
                    raise

    async def revive(self) -> None:
        """Ready to answer, whatever was done to it: one that is still ending is started again."""
        if self.is_running:
            try:
                return await self.ready()
            except RuntimeError:
                if self.is_running:
                    raise
        await self.start()

    def spawn(self) -> None:
        self.lives += 1
        words = ("serve", "--port", str(self.port), "--data", str(self.data), "--node-id", f"{self.name}-{self.lives}")
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidings_proof.sabotage.launcher", *self._plants, "--", *words],
                env=environment({**self._env, **self.changed, PARENT: str(os.getpid())}),
                cwd=self.data.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    async def ready(self, within_s: float = READY_S) -> None:
        clock = Clock()
        deadline_s = clock.monotonic_s() + within_s
        while not await self._answers():
            if not self.is_running:
                raise RuntimeError(f"{self.name} ended: {self.said()}")
            if clock.monotonic_s() > deadline_s:
                raise RuntimeError(f"{self.name} was not ready within {within_s} s: {self.said()}")
            await asyncio.sleep(_POLL_S)

    def said(self) -> str:
        """Its last words."""
        return self.log.read_text("utf-8", "replace")[-1500:] if self.log.exists() else ""

    # --- what is done to it -------------------------------------------------------------------------

    def kill(self) -> None:
        """kill -9, and gone."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._is_stopped = False

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self._is_stopped = True

    def resume(self) -> None:
        if self._is_stopped and self.is_running:
            os.kill(self.pid, signal.SIGCONT)
        self._is_stopped = False

    async def drain(self, within_s: float) -> int | None:
        """SIGTERM; the exit code, or None when it did not end in time."""
        assert self._process is not None
        self._process.terminate()
        try:
            return await asyncio.to_thread(self._process.wait, within_s)
        except subprocess.TimeoutExpired:
            return None

    def limit_files(self, size_bytes: int | None) -> None:
        """No file of it may grow beyond this: what a full disk is to it. None: they may again."""
        if sys.platform == "linux" and self.is_running:
            _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
            soft = hard if size_bytes is None else size_bytes
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (soft, hard))

    def usage(self) -> Usage:
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
            return Usage(pages * resource.getpagesize(), len(os.listdir(f"/proc/{self.pid}/fd")))
        except (OSError, IndexError):
            return Usage(0, 0)

    def forgive(self) -> None:
        """No trouble inside it any more."""
        self.trouble.write(Trouble())
        self.limit_files(None)
        self.resume()

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(2):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    writer.write(b"GET /readyz HTTP/1.1\r\nHost: torture\r\nConnection: close\r\n\r\n")
                    return (await reader.readline()).startswith(b"HTTP/1.1 200")
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False


class Stalls:
    """Stalls: the time for which a process was ready to run, and the machine had no processor for it.

    Of several processes the one that waited longest counts. Linux tells it for the main thread of each; elsewhere it
    is 0. Some of the time always goes on, so whoever waits for something does not wait for ever.
    """

    def __init__(self, pids: Callable[[], Sequence[int]], read: Callable[[int], float | None] | None = None) -> None:
        self._pids = pids
        self._read = read or waited_s
        self._before: dict[int, float] = {}

    def since(self, elapsed_s: float) -> float:
        """Seconds since the last call, which was `elapsed_s` ago."""
        now = {pid: waited for pid in self._pids() if (waited := self._read(pid)) is not None}
        longest_s = max((waited - self._before.get(pid, waited) for pid, waited in now.items()), default=0.0)
        self._before = now
        return min(longest_s, elapsed_s * STALL_MAX)


def waited_s(pid: int) -> float | None:
    """Seconds for which the process waited for a processor so far. None: the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Ours, without any setting of Tidings that is not meant for the node."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **env}
