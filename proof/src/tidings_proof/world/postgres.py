"""A PostgreSQL server of this machine's Debian package, on a unix socket in a folder of its own.

initdb refuses to run as root, so a root process runs the server as the package's user `postgres`. The server listens on
no port. Where the package is missing, `NotThere` says so.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from tidings.clock import Clock
from tidings_proof.world.dynamodb import NotThere

READY_S = 60.0
_USER = "postgres"  # of the package, and the name of the database's first role


class PostgresServer:
    """One server with one cluster of databases. `kill` and `start` play a crash: the cluster stays."""

    def __init__(self) -> None:
        self._bin = _binaries()
        self._folder = Path(tempfile.mkdtemp(prefix="tidings-pg-"))  # short: a unix socket's path has 107 characters
        self._data = self._folder / "data"
        self._owner = _owner()
        if self._owner is not None:
            shutil.chown(self._folder, self._owner)
        self._run("initdb", "-D", str(self._data), "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-locale")
        self.start()

    def url(self, schema: str) -> str:
        return f"postgresql://{_USER}@/postgres?host={self._folder}&schema={schema}"

    def start(self, *options: str) -> None:
        settings = {"listen_addresses": "", "unix_socket_directories": str(self._folder), "shared_buffers": "64MB"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._folder / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._bin / "postgres"), "-D", str(self._data), *words, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._owner,
                cwd=self._folder,
            )
        self.pid = self._process.pid
        clock, pause = Clock(), threading.Event()
        deadline_s = clock.monotonic_s() + READY_S
        while not self._answers():
            if self._process.poll() is not None or clock.monotonic_s() > deadline_s:
                raise NotThere(f"it does not run: {(self._folder / 'postgres.log').read_text()[-300:]}")
            pause.wait(0.05)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End it as a crash would: the children end with it, and the next start recovers."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGQUIT)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        asked = [str(self._bin / "pg_isready"), "-q", "-h", str(self._folder)]
        return subprocess.run(asked, check=False).returncode == 0

    def _run(self, name: str, *words: str) -> None:
        done = subprocess.run(
            [str(self._bin / name), *words], user=self._owner, cwd=self._folder, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise NotThere(f"{name} fails: {done.stderr.decode()[-300:]}")


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        raise NotThere("postgresql is not installed (Debian: apt-get install postgresql)")
    return found[-1].parent


def _owner() -> str | None:
    """The user to run as; None: this one."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_USER).pw_name
    except KeyError:
        raise NotThere(f"there is no user {_USER}, and PostgreSQL does not run as root") from None
