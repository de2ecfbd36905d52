"""Servers under test: one or several `tidings serve`, or the textbook server with a Valkey of its own, for a time.

Each listens on a free loopback port, keeps its data in a folder that goes away with it, and is stopped by its own
process id. Whoever measures asks `parts` for the process ids whose CPU counts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.common import LIMITS, ROOT, SECRET, Parts, parts_of, token
from tidings.stores.keyspace_embedded import find_binary

START_S = 120.0
STOP_S = 40.0


@dataclass(frozen=True)
class Server:
    port: int
    parts: Parts

    def call(self, method: str, path: str, body: Any = None, *, user_id: str) -> Any:
        """One REST request of a user; raises on an error status."""
        headers = {"Authorization": f"Bearer {token(user_id)}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url(path), data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def direct(self, one: str, other: str) -> str:
        """The conversation of two users."""
        body = {"kind": "direct", "members": [other]}
        return str(self.call("POST", "/v1/conversations", body, user_id=one)["conversation_id"])

    def metric(self, name: str, **labels: str) -> float:
        """One series of /metrics; 0 when it is not there."""
        wanted = ",".join(f'{key}="{value}"' for key, value in labels.items())
        series = re.escape(f"{name}{{{wanted}}}" if wanted else name)
        with urllib.request.urlopen(self._url("/metrics"), timeout=60) as answer:
            found = re.search(rf"^{series} (\S+)$", answer.read().decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@contextmanager
def folder() -> Iterator[Path]:
    """A short path: a unix socket's is limited to about 100 bytes."""
    with tempfile.TemporaryDirectory(prefix="tidings-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def tidings(data: Path, **settings: str) -> Iterator[Server]:
    """`tidings serve` on a data folder, with embedded stores unless the settings say otherwise."""
    port = free_port()
    words = [sys.executable, "-m", "tidings", "serve", "--port", str(port), "--data", str(data)]
    given = {"TIDINGS_AUTH_SECRET": SECRET, "TIDINGS_LOG_LEVEL": "warning", **LIMITS, **settings}
    with _process(words, given, data / "node.log") as process:
        _await(process, lambda: _answers(port, "/readyz"), data / "node.log")
        yield Server(port, parts_of(process.pid))


@contextmanager
def nodes(data: Path, count: int) -> Iterator[list[Server]]:
    """Several nodes that share a Valkey and an SQLite file. Each one's parts are its own process and that Valkey."""
    with ExitStack() as stack:
        valkey_pid = stack.enter_context(_valkey(data))
        stores = {"TIDINGS_KEYSPACE": f"unix://{data / 'v.sock'}", "TIDINGS_TABLES": f"sqlite://{data / 'tidings.db'}"}
        found = []
        for number in range(count):
            own = data / f"node{number}"
            own.mkdir()
            server = stack.enter_context(tidings(own, **stores))
            found.append(Server(server.port, {"node": server.parts["node"], "valkey": [valkey_pid]}))
        yield found


@contextmanager
def textbook(data: Path) -> Iterator[Server]:
    """The textbook server and its Valkey."""
    port = free_port()
    words = [sys.executable, "-m", "bench.textbook", "--port", str(port), "--valkey", str(data / "v.sock")]
    with _valkey(data) as valkey_pid, _process([*words, "--data", str(data)], {}, data / "node.log") as node:
        _await(node, lambda: _answers(port, "/readyz"), data / "node.log")
        yield Server(port, {"node": [node.pid], "valkey": [valkey_pid]})


@contextmanager
def _valkey(data: Path) -> Iterator[int]:
    """A Valkey with the persistence of the embedded one, on `v.sock` of the folder; its process id."""
    link = data / "v.sock"
    words = [str(find_binary()), "--port", "0", "--unixsocket", str(link), "--dir", str(data), "--save", ""]
    words += ["--appendonly", "yes", "--appendfsync", "everysec"]
    with _process(words, {}, data / "valkey.log") as valkey:
        _await(valkey, link.exists, data / "valkey.log")
        yield valkey.pid


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _process(words: Sequence[str], settings: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A child without our own TIDINGS_ variables; told to end when the block does."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), environ.get("PYTHONPATH")]))
    with log.open("ab") as output:
        process = subprocess.Popen(
            words,
            env={**environ, **settings, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
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


def _await(process: subprocess.Popen[bytes], is_ready: Callable[[], bool], log: Path) -> None:
    deadline_s = time.monotonic() + START_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise SystemExit(f"the server did not start:\n{log.read_text()[-3000:]}")
        time.sleep(0.05)


def _answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
