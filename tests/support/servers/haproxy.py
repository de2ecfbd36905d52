"""The real haproxy with the shipped deploy/haproxy.cfg in front of nodes: only addresses come from the environment.

`is_up`, `sockets` and `marked` are read from haproxy's own statistics, so a test knows which node it reached without
asking the node.
"""

from __future__ import annotations

import csv
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidings_proof.world.ports import free_port

CONFIG = Path(__file__).resolve().parents[3] / "deploy" / "haproxy.cfg"
READY_S = 60.0


def binary() -> str:
    """Debian's. Where it is missing, the tests that need it are skipped and say so."""
    found = shutil.which("haproxy", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if found is None:
        pytest.skip("haproxy is not installed (apt-get install haproxy)")
    return found


class Haproxy:
    """In front of the nodes on these ports. `port` is where clients connect."""

    def __init__(self, folder: Path, node_ports: Sequence[int]) -> None:
        self.port = free_port()
        self._stats = folder / "h.sock"
        self._log = folder / "haproxy.log"
        nodes = {f"NODE{number}": f"127.0.0.1:{port}" for number, port in enumerate(node_ports, 1)}
        self._env = {"LISTEN": f"127.0.0.1:{self.port}", "STATS": str(self._stats), **nodes}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Haproxy:
        """Every node is up, as haproxy sees it."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [binary(), "-db", "-f", str(CONFIG)],
                env={**os.environ, **self._env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.wait(self._is_ready)
        return self

    def _is_ready(self) -> bool:
        try:
            return all(status == "UP" for status in self.marked().values())
        except (FileNotFoundError, ConnectionRefusedError):
            return False  # the socket is not there yet, or there and not listened to

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(READY_S)

    def wait(self, is_true: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + READY_S
        while not is_true():
            assert self._process is not None and self._process.poll() is None, self.said()
            assert time.monotonic() < deadline_s, self.said()
            time.sleep(0.02)

    def said(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def marked(self) -> dict[str, str]:
        """Node -> UP or DOWN, as the health checks have it."""
        return {name: row["status"].split()[0] for name, row in self._servers().items()}

    def sockets(self) -> dict[str, int]:
        """Node -> connections of clients that it serves now."""
        return {name: int(row["scur"]) for name, row in self._servers().items()}

    def _servers(self) -> dict[str, dict[str, str]]:
        rows = csv.DictReader(self.ask("show stat").lstrip("# ").splitlines())
        return {row["svname"]: row for row in rows if row["pxname"] == "nodes" and row["svname"].startswith("node")}

    def ask(self, command: str) -> str:
        """One command on the statistics socket."""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(READY_S)
            link.connect(str(self._stats))
            link.sendall(command.encode() + b"\n")
            link.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: link.recv(65_536), b"")).decode()


@contextmanager
def running_haproxy(folder: Path, node_ports: Sequence[int]) -> Iterator[Haproxy]:
    folder.mkdir(parents=True, exist_ok=True)
    haproxy = Haproxy(folder, node_ports)
    try:
        yield haproxy.start()
    finally:
        haproxy.stop()
