"""Checkpoints that empty the write-ahead log, so that its size is bounded and erased texts leave the disk.

SQLite copies the log into the file by itself, but it cuts the log only at a moment without readers. Where several nodes
read one file all the time, that moment never comes. So one node closes a gate: a file beside the tables, made by the
node that empties the log. Readers of every node wait while the gate is closed, for PAUSE_S at most.

A wipe (wipe.py) reads from slice to slice, and empties the log at its end. So nobody else empties the log meanwhile: it
would wait for that reader with the write lock in its hands.

Invariant: a gate that a dead node left behind holds up nobody for longer than PAUSE_S.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from tidings.clock import Clock
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file.file import wait_for_locks

log = logging.getLogger("tidings.tables")
_POLL_S = 0.001  # between two checks of a closed gate


class Gate:
    """The gate in front of the readers of all nodes on one file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = str(path) + "-pause"
        self._clock = clock

    def wait(self) -> None:
        """Wait until the gate is open. An open gate costs one system call."""
        if not os.access(self._file, os.F_OK):
            return
        pause, until_s = threading.Event(), self._clock.monotonic_s() + bounds.PAUSE_S
        while self._is_closed() and self._clock.monotonic_s() < until_s:
            pause.wait(_POLL_S)

    @contextmanager
    def closed(self) -> Iterator[bool]:
        """Close the gate for a while. False: another node has closed it."""
        if not self._close():
            yield False
            return
        try:
            yield True
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self._file)

    def _close(self) -> bool:
        if not self._is_closed():  # a gate that is too old is of a node that died
            with suppress(FileNotFoundError):
                os.unlink(self._file)
        try:
            os.close(os.open(self._file, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True

    def _is_closed(self) -> bool:
        try:
            age_s = self._clock.now_ms() / 1000 - os.stat(self._file).st_mtime
        except FileNotFoundError:
            return False
        return abs(age_s) < bounds.PAUSE_S


class Checkpoints:
    """The decision of a node when to empty the log. Runs on the writer thread, between two transactions."""

    def __init__(self, path: Path, gate: Gate, clock: Clock) -> None:
        self._log = str(path) + "-wal"
        self._gate = gate
        self._clock = clock
        self._erased_s: float | None = None  # when the first text was erased that the log may still hold
        self._not_before_s = 0.0
        self._retry_s = bounds.LOG_RETRY_S

    def erased(self) -> None:
        """A text was erased: the log may hold it until the next emptying."""
        if self._erased_s is None:
            self._erased_s = self._clock.monotonic_s()

    def run(self, connection: apsw.Connection) -> float | None:
        """Empty the log if it is time, and answer the seconds until the next call. None: after the next commit."""
        due_s = self._due_s()
        if due_s is not None and due_s <= self._clock.monotonic_s():
            self._empty(connection)
            due_s = self._due_s()
        return None if due_s is None else max(0.0, due_s - self._clock.monotonic_s())

    def finish(self, connection: apsw.Connection) -> None:
        """Empty the log of erased texts before the node ends: another node may keep the file open."""
        if self._erased_s is not None:
            self._empty(connection)

    def _due_s(self) -> float | None:
        if self._size() > bounds.LOG_BYTES_MAX:
            return self._not_before_s
        if self._erased_s is not None:
            return max(self._erased_s + bounds.ERASED_S, self._not_before_s)
        return None

    def _size(self) -> int:
        try:
            return os.stat(self._log).st_size
        except FileNotFoundError:
            return 0

    def _empty(self, connection: apsw.Connection) -> None:
        size = self._size()
        with self._gate.closed() as is_ours:
            is_empty = is_ours and not self._is_wiped() and truncate_log(connection)
        if is_empty:
            self._erased_s, self._retry_s = None, bounds.LOG_RETRY_S
            return
        self._not_before_s = self._clock.monotonic_s() + self._retry_s
        self._retry_s = min(2 * self._retry_s, bounds.LOG_RETRY_S_MAX)
        if size > bounds.LOG_BYTES_MAX and is_ours:
            log.warning("log of the tables stays long", extra={"store": "tables", "op": "checkpoint", "bytes": size})

    def _is_wiped(self) -> bool:
        try:
            log_file = os.open(self._log, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not lock_wiping(log_file)
        finally:
            os.close(log_file)


def lock_wiping(log_file: int) -> bool:
    """Take the lock of a wipe, which a close of this file gives back. False: a wipe has it."""
    try:
        fcntl.flock(log_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def truncate_log(connection: apsw.Connection) -> bool:
    """Bring the log into the file and cut it. False: somebody reads, or the disk is full."""
    try:
        wait_for_locks(connection, bounds.EMPTY_S)
        ((is_busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return is_busy == 0
    except apsw.Error as error:
        log.warning("checkpoint failed", extra={"store": "tables", "op": "checkpoint", "cause": str(error)})
        return False
    finally:
        wait_for_locks(connection, bounds.TURN_S)
