"""`tidings top` as an operator runs it: on a terminal until q, once, and as JSON."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.nodes.node_process import NodeProcess, command, environment
from tidings.cli.main import main
from tidings.operators.top import watch

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    data = tmp_path_factory.mktemp("top") / "d"
    data.mkdir(mode=0o700)
    with NodeProcess(data) as node:
        yield node.start()


class Terminal:
    """A `tidings` on a terminal of 80 columns and 24 rows."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self._process = process
        self._master = master
        self.screen = b""

    def wait_for(self, text: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while text.encode() not in self.screen:
            assert time.monotonic() < deadline_s, self.screen[-3000:]
            if select.select([self._master], [], [], 0.1)[0]:
                self.screen += os.read(self._master, 65_536)

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

    def ended(self) -> int:
        deadline_s = time.monotonic() + PATIENCE_S
        while self._process.poll() is None:  # what it writes while it ends must be taken
            assert time.monotonic() < deadline_s
            if select.select([self._master], [], [], 0.05)[0]:
                with suppress(OSError):  # the other end is closed
                    self.screen += os.read(self._master, 65_536)
        return self._process.returncode


@contextmanager
def terminal(node: NodeProcess, *words: str, kind: str = "xterm-256color") -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        command("top", "--data", str(node.data), *words),
        env={**environment({}), "TERM": kind},
        cwd=node.data.parent,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_it_draws_until_q_and_leaves_the_terminal_as_it_was(running: NodeProcess) -> None:
    with terminal(running, f"127.0.0.1:{running.port}", "--interval", "1s") as seen:
        seen.wait_for("q quits")
        seen.wait_for("msg/s")
        seen.wait_for("batch size")  # the second look has come
        seen.press("q")
        assert seen.ended() == 0
    assert b"\x1b[?1049l" in seen.screen  # back from the other screen
    assert b"Traceback" not in seen.screen


def test_a_dumb_terminal_is_shown_one_look_below_the_other(running: NodeProcess) -> None:
    with terminal(running, f"127.0.0.1:{running.port}", "--interval", "1s", kind="dumb") as seen:
        seen.wait_for("first reading")
        seen.wait_for("batch size")  # the second look
        seen.press("q")
        assert seen.ended() == 0
    assert b"\x1b" not in seen.screen and b"Traceback" not in seen.screen


def test_ctrl_c_ends_it_too(running: NodeProcess) -> None:
    with terminal(running, f"127.0.0.1:{running.port}", "--interval", "1s") as seen:
        seen.wait_for("q quits")
        seen.press("\x03")
        assert seen.ended() == 0
    assert b"Traceback" not in seen.screen


@pytest.mark.long
def test_a_node_that_goes_away_is_shown_as_lost_and_taken_up_again(tmp_path: Path, running: NodeProcess) -> None:
    data = tmp_path / "d"
    data.mkdir(mode=0o700)
    with NodeProcess(data) as other:
        other.start()
        words = (f"127.0.0.1:{running.port}", f"127.0.0.1:{other.port}", "--interval", "1s")
        with terminal(running, *words) as seen:
            seen.wait_for("together")
            other.stop()
            seen.wait_for("1 LOST")
            other.start()
            seen.screen = b""
            seen.wait_for("2 of 2 nodes")
            seen.press("q")
            assert seen.ended() == 0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of a busy machine is not shown as lost."""
    monkeypatch.setattr(watch, "TOP_FETCH_S", 60.0)


def top(node: NodeProcess, *words: str) -> int:
    return main(["top", "--once", "--interval", "1s", "--data", str(node.data), *words])


def test_once_prints_one_look(patient: None, running: NodeProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert top(running, "--port", str(running.port)) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("tidings top  1 of 1 nodes") and "slow commands since" in shown
    assert "\x1b" not in shown


def test_json_is_one_line_a_look(patient: None, running: NodeProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert top(running, "--json", f"127.0.0.1:{running.port}") == 0
    shown = capsys.readouterr().out
    view = json.loads(shown)
    assert shown.count("\n") == 1 and view["all"]["commands"] > 0 and view["nodes"][0]["lost"] == ""
