"""Python and `tidings` for shell scripts of tests, without a second of imports for each command.

One process imports everything once, and forks for each command. The programs that a script finds in its PATH are
stubs: they pass their words, folder, environment and streams to that process, and end with its exit code. A command
whose stub is killed ends too.
"""

from __future__ import annotations

import array
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from tests.support.paths import PYTHONPATH, ROOT

_STUB = """#!{python} -IS
import array, json, os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect({address!r})
asked = json.dumps({{"words": {words!r} + sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}).encode()
fds = array.array("i", [0, 1, 2])
link.sendmsg([len(asked).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
link.sendall(asked)
sys.exit(int(link.recv(8) or b"1"))
"""


@contextmanager
def forking(folder: Path) -> Iterator[Path]:
    """A folder with the programs `python` and `tidings`; their process ends with the block."""
    address = str(folder / "forking.sock")
    words = [sys.executable, "-m", "tests.support.forked_python", address]
    server = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": PYTHONPATH}, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        for name, first in (("python", []), ("tidings", ["-m", "tidings"])):
            (folder / name).write_text(_STUB.format(python=sys.executable, address=address, words=first))
            (folder / name).chmod(0o755)
        yield folder
    finally:
        server.kill()
        server.wait()


def _serve(address: str) -> None:
    for name in ("tidings.testing", "tidings.cli.main", "pytest"):
        import_module(name)

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a child: its stub hears the exit code
    print("ready", flush=True)
    while True:
        link, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(link)
        link.close()


def _answer(link: socket.socket) -> None:
    """Run one command in this process, which ends with it."""
    fds = array.array("i")
    head, ancillary, _, _ = link.recvmsg(4, socket.CMSG_LEN(3 * fds.itemsize))
    fds.frombytes(ancillary[0][2][: 3 * fds.itemsize])
    size, asked = int.from_bytes(head, "big"), b""
    while len(asked) < size:
        asked += link.recv(size - len(asked))
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    threading.Thread(target=_end_with, args=(link,), daemon=True).start()
    code = _run(json.loads(asked))
    sys.stdout.flush()
    sys.stderr.flush()
    link.sendall(str(code).encode())
    os._exit(code)


def _end_with(link: socket.socket) -> None:
    if link.recv(1) == b"":  # the stub is gone
        os._exit(1)


def _run(asked: dict[str, object]) -> int:
    words, env = asked["words"], asked["env"]
    assert isinstance(words, list) and isinstance(env, dict)
    os.chdir(str(asked["cwd"]))
    os.environ.clear()
    os.environ.update(env)
    sys.path.insert(0, str(asked["cwd"]))
    try:
        _interpret(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _interpret(words: list[str]) -> None:
    """The three ways in which the pages start Python: a module, a line, a file."""
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = words[1:]
        exec(words[1], {"__name__": "__main__"})
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _serve(sys.argv[1])
