"""Loopback ports on which a server will listen later. No other process is given one of them meanwhile.

A port that the system chose is free only for the moment: before its server listens, a connection or another server may
have it. These ports lie below the range from which the system chooses. Each process has a block of them to itself, and
listens on the first port of its block to keep it.
"""

from __future__ import annotations

import os
import socket

FIRST = 20_000
END = 32_000
BLOCK = 100


class Block:
    """Block: the ports of one process."""

    def __init__(self) -> None:
        self.owner_pid = os.getpid()
        blocks = range(FIRST, END, BLOCK)
        turned = (blocks[(self.owner_pid + step) % len(blocks)] for step in range(len(blocks)))
        self._guard = next(guard for port in turned if (guard := _bound(port)) is not None)
        self._guard.listen()
        self._first: int = self._guard.getsockname()[1]
        self._given = 0

    def next(self) -> int:
        """The next port on which nobody listens. It comes round again after all others."""
        for _ in range(BLOCK):
            self._given = self._given % (BLOCK - 1) + 1
            if (probe := _bound(self._first + self._given)) is not None:
                probe.close()
                return self._first + self._given
        raise RuntimeError(f"each port from {self._first} to {self._first + BLOCK - 1} is in use")

    def close(self) -> None:
        self._guard.close()


def _bound(port: int) -> socket.socket | None:
    """A socket with this port. None: another socket has it."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that ended lately is no hindrance
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        one.close()
        return None
    return one


_mine: list[Block] = []


def free_port() -> int:
    """A port that nobody listens on now, and that no other process is given."""
    if not _mine or _mine[-1].owner_pid != os.getpid():  # a fork needs a block of its own
        _mine.append(Block())
    return _mine[-1].next()
