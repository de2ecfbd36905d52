"""Ports to listen on later: nobody else has them, and nobody else is given them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from tests.support.paths import PYTHONPATH
from tidings_proof.world import ports
from tidings_proof.world.ports import BLOCK, END, FIRST, Block, free_port

ASK = "from tidings_proof.world.ports import free_port; print(free_port(), flush=True); input()"


def block_of(port: int) -> int:
    return (port - FIRST) // BLOCK


def asking() -> subprocess.Popen[str]:
    """A process that says a port, and keeps its block until it is told to end."""
    env = {**os.environ, "PYTHONPATH": PYTHONPATH}
    words = [sys.executable, "-c", ASK]
    return subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said_by(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_ports_are_free_low_and_different() -> None:
    given = [free_port() for _ in range(20)]
    assert len(set(given)) == 20 and all(FIRST < port < END for port in given)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", given[0]))


def test_a_process_keeps_its_block_to_itself() -> None:
    others = [asking() for _ in range(3)]
    blocks = [block_of(said_by(other)) for other in others]
    for other in others:
        other.communicate("\n")
    assert len({*blocks, block_of(free_port())}) == 4


def test_a_port_on_which_somebody_listens_is_left_out() -> None:
    with closing(Block()) as block, socket.socket() as taken:
        first = block.next()
        taken.bind(("127.0.0.1", first + 1))
        taken.listen()
        assert block.next() == first + 2


def test_a_block_begins_again_and_says_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Block()) as block:
        first = block.next()
        assert [block.next() for _ in range(BLOCK - 1)][-2:] == [first + BLOCK - 2, first]
        monkeypatch.setattr(ports, "_bound", lambda port: None)
        with pytest.raises(RuntimeError, match="is in use"):
            block.next()
