"""The folder of an embedded Valkey: who owns it, what lies in it, which processes work on it.

The lock is the invariant: whoever holds it is the only one to start a server there, and it goes with its process
however that ends. Everything is for the owner alone (folders 0700, files 0600). embedded.py runs the server;
`running_socket` is for CLI verbs, which use a running node's Valkey instead of starting their own.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tidings.bounds import UNIX_PATH_BYTES_MAX, VALKEY_LOCK_S
from tidings.errors import Unavailable

FOLDER_NAME = "valkey"
LOCK_NAME = "lock"  # holds the URL of the socket while it is locked
SOCKET_NAME = "valkey.sock"
LOG_TAIL_BYTES = 16 * 1024
LOCK_POLL_S = 0.02


class DataInUse(RuntimeError):
    """Another process runs the Valkey of this data folder; `url` is how to share it."""

    def __init__(self, data: Path, url: str) -> None:
        super().__init__(f"{data} is in use by a running node; to share its Valkey set TIDINGS_KEYSPACE={url}")
        self.url = url


class ValkeyFolder:
    """The folder while we hold its lock."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.socket = socket_path(path)
        self.url = f"unix://{self.socket}"
        self.log = path / "valkey.log"
        self.aof = path / "appendonlydir"
        self.broken_aof = path / "appendonlydir.broken"
        self._lock = lock

    def claim(self) -> None:
        """Say in the lock file where the server will be, and make the socket's folder."""
        make_private(self.socket.parent)
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, self.url.encode(), 0)

    def release(self) -> None:
        """Remove the socket, after the server has ended."""
        self.socket.unlink(missing_ok=True)
        if self.socket.parent != self.path:
            with suppress(OSError):
                self.socket.parent.rmdir()
        os.ftruncate(self._lock, 0)
        os.close(self._lock)

    def open_log(self) -> BinaryIO:
        return open(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb")

    def log_size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def trim_log(self, size_max: int) -> None:
        if self.log_size() > size_max:
            self.log.replace(self.log.with_suffix(".log.1"))

    def last_log_lines(self) -> list[str]:
        """The last lines of the server's log since its banner, as far as they fit LOG_TAIL_BYTES."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as lines:
            lines.seek(max(0, self.log_size() - LOG_TAIL_BYTES))
            text = lines.read().decode("utf-8", "replace")
        said = [line.strip() for line in text.splitlines() if line.strip()]
        starts = [at for at, line in enumerate(said) if " is starting " in line]
        return said[starts[-1] :] if starts else said

    def complains_of_aof(self) -> bool:
        """Whether the log blames the content of the AOF. A full disk or a missing right is another matter."""
        return any(" # " in line and ("AOF" in line or "append only file" in line) for line in self.last_log_lines())

    def set_aof_aside(self) -> None:
        """Move the AOF away: it is only the index. The last one is kept for inspection."""
        shutil.rmtree(self.broken_aof, ignore_errors=True)
        self.aof.rename(self.broken_aof)

    def workers(self) -> list[int]:
        """The live valkey-server processes of this folder. Zombies do not count."""
        found = _workers_by_proc(self.path) if sys.platform == "linux" else _workers_by_ps(self.socket)
        return sorted(found)


async def open_folder(data: Path) -> ValkeyFolder:
    """Make the folder where needed, and lock it. Raises DataInUse, or Unavailable when the folder cannot be ours."""
    path = _make_folder(data)
    lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not await _is_locked_soon(lock):
            raise DataInUse(path.parent, _url_in(lock) or f"unix://{socket_path(path)}")
        folder = ValkeyFolder(path, lock)
        folder.claim()
    except BaseException:
        os.close(lock)
        raise
    return folder


def _make_folder(data: Path) -> Path:
    data = data.resolve()
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_private(data / FOLDER_NAME)
    return data / FOLDER_NAME


def running_socket(data: Path) -> str | None:
    """The URL of the Valkey that a running process has on this data folder; None when there is none."""
    path = data.resolve() / FOLDER_NAME
    try:
        lock = os.open(path / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: those who only look do not disturb each other
    except BlockingIOError:
        return _url_in(lock) or f"unix://{socket_path(path)}"
    else:
        return None
    finally:
        os.close(lock)


async def _is_locked_soon(lock: int) -> bool:
    """Somebody who only looks has the lock for a moment: try for VALKEY_LOCK_S."""
    for _ in range(round(VALKEY_LOCK_S / LOCK_POLL_S)):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        await asyncio.sleep(LOCK_POLL_S)
    return False


def _url_in(lock: int) -> str:
    return os.pread(lock, 4096, 0).decode("utf-8", "replace").strip()


def socket_path(folder: Path) -> Path:
    """The path of the socket: in the folder, or in a temporary folder if that path is too long for a unix socket."""
    socket = folder / SOCKET_NAME
    if len(os.fsencode(socket)) <= UNIX_PATH_BYTES_MAX:
        return socket
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"tidings-{os.geteuid()}-{name}", SOCKET_NAME)


def make_private(path: Path) -> None:
    """Make a real folder of ours with mode 0700. A folder of that name that belongs to somebody else is refused."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise Unavailable(f"{path} is not a folder of ours")
    path.chmod(0o700)


def _workers_by_proc(folder: Path) -> Iterator[int]:
    """Find the servers of a folder by their working folder. No record from before a crash is needed."""
    here = folder.stat()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):  # it ended meanwhile, or belongs to another user
                is_valkey = os.path.basename(os.readlink(f"/proc/{name}/exe")).startswith("valkey-server")
                if is_valkey and os.path.samestat(os.stat(f"/proc/{name}/cwd"), here):
                    yield int(name)


def _workers_by_ps(socket: Path) -> Iterator[int]:
    """Find the servers by their socket, which Valkey shows in its title."""
    listing = subprocess.run(["ps", "-axo", "pid=,command="], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        pid, _, command = line.strip().partition(" ")
        if "valkey-server" in command and str(socket) in command:
            yield int(pid)
