"""A valkey-server of our own: started, paused, killed, started again on what it left. Spoken to without any code that
is under test, so what it says is a second opinion. Used by the world of a torture run, and by tests.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hiredis

from tidings.clock import Clock
from tidings.stores.keyspace.embedded import find_binary

READY_S = 60.0
SCAN_COUNT = 500  # keys looked at in one step of a scan
_PAUSE_S = 0.005


class Speaker:
    """Speaker: a server that listens on a unix socket and speaks Valkey's protocol."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.url = f"unix://{socket}"

    @property
    def pid(self) -> int:
        """As the server itself says it."""
        lines = str(self.ask("INFO", "server")).splitlines()
        return int(next(line.partition(":")[2] for line in lines if line.startswith("process_id:")))

    def command(self, *words: str) -> bytes:
        """The raw answer to one command, as far as it comes in one piece."""
        return self.commands(words)

    def commands(self, *commands: Sequence[str]) -> bytes:
        """Several in one write, so that the server handles them in one go."""
        with _connect(self.socket) as link:
            link.sendall(b"".join(_packed(words) for words in commands))
            return link.recv(65_536)

    def ask(self, *words: str | int) -> Any:
        """The answer to one command, decoded; an error reply is returned as one."""
        return self.ask_all([[str(word) for word in words]])[0]

    def ask_all(self, commands: Sequence[Sequence[str]]) -> list[Any]:
        return ask_all(self.socket, commands)

    def scan(self, pattern: str = "*") -> Iterator[str]:
        """Every key, a step at a time: the server goes on with its work."""
        cursor = "0"
        while True:
            answer = self.ask("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
            if not isinstance(answer, list):
                raise ConnectionError(f"no keys to be had: {answer}")  # it is just loading its file
            cursor, keys = answer
            yield from keys
            if cursor == "0":
                return


class ValkeyProcess(Speaker):
    """One server on a unix socket in `folder`, which should have a short path: a socket's is limited to ~100 bytes."""

    def __init__(
        self, folder: Path, args: Sequence[str], binary: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder / "v.sock")
        self.folder = folder
        self.binary = binary or find_binary()
        self._args = tuple(args)
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Ready to answer."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        settings = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder), "--save", ""]
        with (self.folder / "v.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self.binary), *settings, *self._args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=None if self._env is None else {**os.environ, **self._env},
                start_new_session=True,  # a Ctrl-C is for whoever started us
                restore_signals=False,  # a file that may not grow is an error to it, not its end
            )
        self._wait_ready(self._process)

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        clock, pause = Clock(), threading.Event()
        deadline_s = clock.monotonic_s() + READY_S
        while not self._answers():
            if process.poll() is not None or clock.monotonic_s() > deadline_s:
                raise RuntimeError(f"valkey-server did not start: {(self.folder / 'v.log').read_text()[-2000:]}")
            pause.wait(_PAUSE_S)

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

    def _answers(self) -> bool:
        try:
            answer = self.command("PING")
        except OSError:
            return False
        return answer.startswith((b"+PONG", b"-NOAUTH"))


def ask_all(path: Path, commands: Sequence[Sequence[str]]) -> list[Any]:
    """The decoded answers of whoever listens on this unix socket."""
    reader = hiredis.Reader(encoding="utf-8", errors="replace")
    answers: list[Any] = []
    with _connect(path) as link:
        link.sendall(b"".join(_packed(words) for words in commands))
        while len(answers) < len(commands):
            data = link.recv(65_536)
            if not data:
                raise ConnectionError("the server closed the connection")
            reader.feed(data)
            while (answer := reader.gets()) is not False:
                answers.append(answer)
    return answers


def _connect(path: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(READY_S)
    try:
        link.connect(str(path))
    except OSError:
        link.close()
        raise
    return link


def _packed(words: Iterable[str]) -> bytes:
    encoded = [word.encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)


def start_valkey(folder: Path, *, args: Sequence[str] = ()) -> ValkeyProcess:
    """Ready to answer."""
    server = ValkeyProcess(folder, args)
    server.start()
    return server
