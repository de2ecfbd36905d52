"""A `tidings serve --workers 2` as processes: its workers by number of process, and their states as /readyz tells."""

from __future__ import annotations

import http.client
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.nodes.node_process import NodeProcess

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the port is shared, and processes found, on Linux")


class Workers(NodeProcess):
    """Two workers. The process itself is their supervisor."""

    def __init__(self, data: Path, **env: str) -> None:
        super().__init__(data, env, ["--workers", "2"])

    def pids(self) -> list[int]:
        """The living workers, the oldest first."""
        return sorted(pid for pid in _children(self.pid) if _is_worker(pid))

    def states(self) -> dict[str, str]:
        try:
            states: dict[str, str] = self.rest("GET", "/readyz")[1].get("workers", {})
        except OSError:
            return {}  # it reached a worker that was just killed
        return states

    def is_whole(self) -> bool:
        return self.states() == {"1": "ready", "2": "ready"}

    def reload(self) -> None:
        os.kill(self.pid, signal.SIGHUP)

    def clean_up(self) -> None:
        """Workers of a supervisor that was killed leave by themselves; a test that failed does not wait for them."""
        left = self.pids() if self._process is not None and self._process.poll() is None else []
        super().clean_up()
        for pid in left:
            if _is_worker(pid):
                os.kill(pid, signal.SIGKILL)

    def metrics(self) -> str:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            link.request("GET", "/metrics")
            return link.getresponse().read().decode()
        finally:
            link.close()


def total(page: str, series: str) -> float:
    [value] = [line.rpartition(" ")[2] for line in page.splitlines() if line.rpartition(" ")[0] == series]
    return float(value)


def _children(parent: int) -> list[int]:
    found: Any = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in found]


def _is_worker(pid: int) -> bool:
    try:
        return b"supervisor.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
