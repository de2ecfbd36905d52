"""A node as a process of its own: `python -m tidings serve` on a free port, with embedded stores unless told otherwise.

Tests kill it, stop it and start it again on the same data folder: `with NodeProcess(folder) as node: node.start()`.
Whatever still runs at the end of the block, the node or a Valkey it left behind, is ended there.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import redis

from tests.support.devices.plain_client import sign
from tests.support.paths import PYTHONPATH
from tidings.clock import Clock
from tidings.stores.keyspace.embedded_folder import FOLDER_NAME, socket_path
from tidings_proof.world.ports import free_port

SECRET = "a-secret-of-the-tests-that-is-long-enough"
READY_S = 180.0  # a machine that runs many of them at once starts one in a minute or more
EXIT_S = 60.0


class NodeProcess:
    """One `tidings serve`. `start` may be called again after it ended; the port and the folder stay."""

    def __init__(self, data: Path, env: Mapping[str, str] | None = None, words: Sequence[str] = ()) -> None:
        self.data = data
        self.port = free_port()
        generous = {f"TIDINGS_LIMITS_{name}": "off" for name in ("SEND", "READ", "CREATE")}
        self.env = {**generous, **(env or {})}
        self.words = tuple(words)
        self.log = data.with_name(f"{data.name}.{self.port}.log")
        self._process: subprocess.Popen[bytes] | None = None
        self._valkey_pids: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.clean_up()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Ready to answer."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command("serve", "--port", str(self.port), "--data", str(self.data), *self.words),
                env=environment(self.env),
                cwd=self.data.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + READY_S
        while not self._is_ready():
            assert self._process.poll() is None, self.said()
            assert time.monotonic() < deadline_s, self.said()
            time.sleep(0.02)
        if "TIDINGS_KEYSPACE" not in self.env:
            self._valkey_pids.add(self.valkey_pid())
        return self

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal sends it: to the whole group of processes."""
        os.killpg(self.pid, signal.SIGINT)

    def ended(self, within_s: float = EXIT_S) -> int:
        """The exit code, which comes in time."""
        assert self._process is not None
        return self._process.wait(within_s)

    def stop(self) -> None:
        self.terminate()
        assert self.ended() == 0, self.said()

    def kill(self) -> None:
        """kill -9 of the node alone. Its Valkey is left to itself."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def kill_both(self) -> None:
        """kill -9 of the node and of its Valkey: neither writes another byte."""
        valkey = self.valkey_pid()
        os.kill(valkey, signal.SIGKILL)
        self.kill()
        wait_gone(valkey)

    def check_alive(self) -> None:
        assert self._process is not None and self._process.poll() is None, self.said()

    def said(self) -> str:
        """Everything it wrote, over all its lives."""
        return self.log.read_text("utf-8", "replace")

    def clean_up(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        for pid in self._valkey_pids:
            if is_valkey(pid):
                os.kill(pid, signal.SIGKILL)
                wait_gone(pid)

    # --- its Valkey, seen without code that is under test ---

    @property
    def socket(self) -> Path:
        return socket_path(self.data.resolve() / FOLDER_NAME)

    def keyspace(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket))

    def valkey_pid(self) -> int:
        info: Any = self.keyspace().info("server")
        return int(info["process_id"])

    # --- talking to it ---

    def token(self, user_id: str) -> str:
        return sign(SECRET, user_id, ttl_s=3600, now_ms=Clock().now_ms())

    def rest(
        self, method: str, path: str, body: Any = None, user_id: str = "u0", token: str | None = None
    ) -> tuple[int, Any]:
        """One REST request: status and decoded answer."""
        return rest(self.port, method, path, body, token or self.token(user_id))

    def create_group(self, users: Sequence[str]) -> str:
        status, body = self.rest("POST", "/v1/conversations", {"kind": "group", "members": list(users)}, users[0])
        assert status == 201, body
        return str(body["conversation_id"])

    def tidings(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A verb of the command line on the same stores."""
        return run_tidings(*words, "--data", str(self.data), env=self.env, cwd=self.data.parent)

    def _is_ready(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            return self.rest("GET", "/readyz")[0] == 200
        return False


def rest(port: int, method: str, path: str, body: Any, token: str) -> tuple[int, Any]:
    """One REST request to whoever listens on the port: status and decoded answer. A proxy's own page is None."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        raw = None if body is None else json.dumps(body)
        link.request(method, path, raw, {"Authorization": f"Bearer {token}"})
        answer = link.getresponse()
        content = answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(content) if is_json and content else None
    finally:
        link.close()


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tidings", *words]


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Ours without any setting of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    auth = {} if any(name.startswith("TIDINGS_AUTH_") for name in env) else {"TIDINGS_AUTH_SECRET": SECRET}
    return {**kept, "PYTHONPATH": PYTHONPATH, **auth, **env}


def run_tidings(*words: str, env: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """A verb that ends by itself."""
    return subprocess.run(
        command(*words), env=environment(env), cwd=cwd, capture_output=True, text=True, timeout=READY_S, check=False
    )


def wait_gone(pid: int) -> None:
    """A process that is not our child: until it is gone or only a zombie of its parent."""
    deadline_s = time.monotonic() + EXIT_S
    while is_valkey(pid):
        assert time.monotonic() < deadline_s, f"{pid} still runs"
        time.sleep(0.01)


def is_valkey(pid: int) -> bool:
    """Lives, and is no other process that got the number since."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("valkey-server")
        return False
    listing = subprocess.run(["ps", "-o", "stat=,command=", "-p", str(pid)], capture_output=True, check=False)
    state, _, words = listing.stdout.decode().strip().partition(" ")
    return bool(state) and not state.startswith("Z") and "valkey-server" in words
