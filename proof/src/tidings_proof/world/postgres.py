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
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tidings.clock import Clock
from tidings_proof.world.dynamodb import NotThere

READY_S = 60.0
_SOCKET = ".s.PGSQL.5432"
_SHUT = {"listen_addresses": "", "port": "5432", "shared_buffers": "64MB"}
_USER = "postgres"  # of the package, and the name of the database's first role


class PostgresServer:
    """One server with one cluster of databases. `kill` and `start` play a crash: the cluster stays.

    `fail_over` gives the server a synchronous replica, ends the server, and promotes the replica, which clients then
    find in the same place. `settings` are its own, and may give it an address and a port.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._bin = binaries()
        self._settings = {**_SHUT, **(settings or {})}
        self._folder = Path(tempfile.mkdtemp(prefix="tidings-pg-"))  # short: a unix socket's path has 107 characters
        self._data = self._folder / "data"
        self._replicas = 0
        self._owner = _owner()
        if self._owner is not None:
            shutil.chown(self._folder, self._owner)
        self._run("initdb", "-D", str(self._data), "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-locale")
        self.start()

    def url(self, schema: str) -> str:
        return f"postgresql://{_USER}@/postgres?host={self._folder}&schema={schema}"

    def start(self, *options: str) -> None:
        self._process = self._started(self._data, self._folder, *options)
        self.pid = self._process.pid

    def _started(self, data: Path, sockets: Path, *options: str) -> subprocess.Popen[bytes]:
        settings = {**self._settings, "unix_socket_directories": str(sockets)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._folder / "postgres.log").open("ab") as log:
            process = subprocess.Popen(
                [str(self._bin / "postgres"), "-D", str(data), *words, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._owner,
                cwd=self._folder,
            )
        self._wait(lambda: self._answers(sockets), process)
        return process

    def _wait(self, is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
        clock, pause = Clock(), threading.Event()
        deadline_s = clock.monotonic_s() + READY_S
        while not is_so():
            if process.poll() is not None or clock.monotonic_s() > deadline_s:
                raise NotThere(f"it does not run: {(self._folder / 'postgres.log').read_text()[-300:]}")
            pause.wait(0.05)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End it as a crash would: the children end with it, and the next start recovers."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def fail_over(self) -> None:
        """Make a synchronous replica, crash the server while it commits, and let the replica take its place."""
        self._replicas += 1
        sockets, data = self._folder / f"r{self._replicas}", self._folder / f"data{self._replicas}"
        sockets.mkdir()
        if self._owner is not None:
            shutil.chown(sockets, self._owner)
        self._run("pg_basebackup", "-D", str(data), "-h", str(self._folder), "-U", _USER, "-R", "-c", "fast")
        replica = self._started(data, sockets)
        self._wait(
            lambda: self.ask("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1", replica
        )
        self.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")  # from here on no commit is answered without it
        self.ask("SELECT pg_reload_conf()")
        self._wait(lambda: self.ask("SELECT sync_state FROM pg_stat_replication") == "sync", replica)
        self.kill()
        self._process, self._data, self.pid = replica, data, replica.pid
        self._run("pg_ctl", "promote", "-w", "-D", str(data))
        (self._folder / _SOCKET).unlink(missing_ok=True)
        (self._folder / _SOCKET).symlink_to(sockets / _SOCKET)

    def limit_files(self, size_bytes: int | None) -> None:
        """No file of the server may grow beyond this, as on a full disk; None: they may again."""
        limit = "unlimited" if size_bytes is None else str(size_bytes)
        for pid in [self.pid, *_children(self.pid)]:  # one that has ended meanwhile needs no limit
            words = [
                "prlimit",
                f"--pid={pid}",
                f"--fsize={limit}:",
            ]  # the first part of the limit: it may be raised again
            subprocess.run(words, user=self._owner, cwd="/", capture_output=True, check=False)

    def ask(self, sql: str) -> str:
        return self._psql("-tA", "-c", sql).stdout.decode().strip()

    def run_file(self, file: Path) -> None:
        """Run the statements of a file. Raises NotThere with the first mistake."""
        done = self._psql("-q", "-v", "ON_ERROR_STOP=1", "-f", str(file))
        if done.returncode != 0:
            raise NotThere(f"{file.name} fails: {done.stderr.decode()[-300:]}")

    def _psql(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        where = ["-h", str(self._folder), "-p", self._settings["port"], "-U", _USER, "-d", "postgres"]
        return subprocess.run([str(self._bin / "psql"), *where, *words], capture_output=True, check=False)

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGQUIT)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self, sockets: Path) -> bool:
        asked = [str(self._bin / "pg_isready"), "-q", "-h", str(sockets), "-p", self._settings["port"]]
        return subprocess.run(asked, check=False).returncode == 0

    def _run(self, name: str, *words: str) -> None:
        done = subprocess.run(
            [str(self._bin / name), *words], user=self._owner, cwd=self._folder, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise NotThere(f"{name} fails: {done.stderr.decode()[-300:]}")


def _children(pid: int) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def binaries() -> Path:
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
