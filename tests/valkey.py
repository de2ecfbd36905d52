"""A throw-away valkey-server for tests: on a unix socket in a folder of the test, without persistence."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tidings.stores.keyspace_embedded import find_binary

READY_S = 20.0


class ValkeyProcess:
    """One server; `command` talks to it without any code that is under test."""

    def __init__(self, folder: Path, args: Sequence[str], binary: Path | None = None) -> None:
        self.folder = folder
        self.binary = binary or find_binary()
        self.socket = folder / "v.sock"
        self.url = f"unix://{self.socket}"
        self._args = tuple(args)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        settings = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder), "--save", ""]
        with (self.folder / "v.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self.binary), *settings, *self._args], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline_s = time.monotonic() + READY_S
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "v.log").read_text()
            assert time.monotonic() < deadline_s, "valkey-server did not answer"
            time.sleep(0.005)

    def pause(self) -> None:
        """The server hears nothing and answers nothing until `resume`; its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """kill -9, and gone."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def command(self, *words: str) -> bytes:
        """The raw answer to one command, as far as it comes in one piece."""
        return self.commands(words)

    def commands(self, *commands: Sequence[str]) -> bytes:
        """Several in one write, so that the server handles them in one go."""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(READY_S)
            link.connect(str(self.socket))
            link.sendall(b"".join(_packed(words) for words in commands))
            return link.recv(65_536)

    def _answers(self) -> bool:
        try:
            answer = self.command("PING")
        except OSError:
            return False
        return answer.startswith((b"+PONG", b"-NOAUTH"))


def _packed(words: Sequence[str]) -> bytes:
    encoded = [word.encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)


def start_valkey(folder: Path, *, args: Sequence[str] = ()) -> ValkeyProcess:
    """Ready to answer. `folder` should have a short path: a unix socket's is limited to about 100 bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    process = ValkeyProcess(folder, args)
    process.start()
    return process


def free_port() -> int:
    """A loopback TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def eventually(condition: Callable[[], bool], *, within_s: float = 15.0) -> None:
    """Until the condition holds; fails the test when it does not in time."""
    for _ in range(round(within_s / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    assert condition(), f"not within {within_s} s"
