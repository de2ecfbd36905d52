"""A node for the time of a benchmark: `tidings serve` on a free loopback port and a folder that goes away with it.

The node is a process of its own, stopped by its process id. The limiter is on, with limits that refuse nobody, so that
every request pays for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tidings.clock import Clock
from tidings_proof.bench.load.people import Signed
from tidings_proof.bench.target.processes import parts_of
from tidings_proof.bench.target.target import Target
from tidings_proof.world.ports import free_port

START_S = 120.0
STOP_S = 40.0
SECRET = "only-for-benchmarks-on-loopback-0123456789"
token = Signed(SECRET).token  # of a user, for every server that is started here
LIMIT = "9999999/60s"  # the limiter runs for every request, and refuses none
LIMITS = {f"TIDINGS_LIMITS_{name}": LIMIT for name in ("SEND", "READ", "TYPING", "CONNECT", "HTTP", "CREATE")}


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


def environment() -> dict[str, str]:
    """Our environment without TIDINGS_ settings. Children import the package from the same place as we do."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    path = os.pathsep.join(filter(None, sys.path))
    return {**kept, "PYTHONPATH": path}


@contextmanager
def child(words: Sequence[str], settings: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is told to end when the block does."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            words,
            env={**environment(), **settings},
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
