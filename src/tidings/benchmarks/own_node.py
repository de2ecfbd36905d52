"""A node for the time of a benchmark: `tidings serve` on a free loopback port and a folder that goes away with it.

It is a process of its own, stopped by its own process id. The limiter is on, with limits that refuse nobody, so that
every request pays for it. Called by cli_bench and by the repository's benchmarks.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import tidings
from tidings.benchmarks.people import Signed
from tidings.benchmarks.processes import parts_of
from tidings.benchmarks.target import Target
from tidings.clock import Clock

START_S = 120.0
STOP_S = 40.0
SECRET = "only-for-benchmarks-on-loopback-0123456789"
LIMIT = "9999999/60s"  # the limiter runs for every request, and refuses none
LIMITS = {f"TIDINGS_LIMITS_{name}": LIMIT for name in ("SEND", "READ", "TYPING", "CONNECT", "HTTP")}
SOURCE = Path(tidings.__file__).resolve().parent.parent


@contextmanager
def folder() -> Iterator[Path]:
    """A short path: a unix socket's is limited to about 100 bytes."""
    with tempfile.TemporaryDirectory(prefix="tidings-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def own_node(data: Path, **settings: str) -> Iterator[Target]:
    """`tidings serve` on a data folder, with embedded stores unless the settings (variables) say otherwise."""
    port = free_port()
    words = [sys.executable, "-m", "tidings", "serve", "--port", str(port), "--data", str(data)]
    given = {"TIDINGS_AUTH_SECRET": SECRET, "TIDINGS_LOG_LEVEL": "warning", **LIMITS, **settings}
    url, log = f"http://127.0.0.1:{port}", data / "node.log"
    with child(words, given, log) as process:
        await_ready(process, lambda: is_answering(f"{url}/readyz"), log)
        yield Target(url, Signed(SECRET), parts_of(process.pid) if sys.platform == "linux" else {})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(*more: Path) -> dict[str, str]:
    """Ours without any setting of whoever runs the benchmark; children find the package where we have it from."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    path = os.pathsep.join(filter(None, [str(SOURCE), *map(str, more), os.environ.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path}


@contextmanager
def child(
    words: Sequence[str], settings: Mapping[str, str], log: Path, *more: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is told to end when the block does."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            words,
            env={**environment(*more), **settings},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for us; the child is told when we have ended what we do with it
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_ready(process: subprocess.Popen[bytes], is_ready: Callable[[], bool], log: Path) -> None:
    clock = Clock()
    deadline_s = clock.monotonic_s() + START_S
    while not is_ready():
        if process.poll() is not None or clock.monotonic_s() > deadline_s:
            raise RuntimeError(f"the server did not start:\n{log.read_text('utf-8', 'replace')[-3000:]}")
        time.sleep(0.05)


def is_answering(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
