"""Turns at the write lock: nodes that share one file write in turn.

SQLite's lock has no queue. A node that commits all the time takes the lock again before a waiting node tries, and the
waiting node starves. So a node that waits leaves a file beside the tables, and a node that has committed makes a short
pause when it finds the file. A node alone on its file never waits and never pauses.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import apsw

from tidings.clock import Clock
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file.file import wait_for_locks


class Turns:
    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = str(path) + "-waiting"
        self._clock = clock

    def begin(self, connection: apsw.Connection) -> None:
        """Begin a write transaction. Raises BusyError after BUSY_S. The connection itself waits for TURN_S."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            self._wait(connection)

    def _wait(self, connection: apsw.Connection) -> None:
        until_s = self._clock.monotonic_s() + bounds.BUSY_S
        wait_for_locks(connection, bounds.QUEUE_S)
        try:
            while True:
                self._announce()
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except apsw.BusyError:
                    if self._clock.monotonic_s() > until_s:
                        raise
        finally:
            wait_for_locks(connection, bounds.TURN_S)

    def give_way(self) -> None:
        """Make a pause if another node waits. Each node that still waits leaves its file again."""
        if os.access(self._file, os.F_OK):
            with suppress(OSError):
                os.unlink(self._file)
            threading.Event().wait(bounds.GIVE_WAY_S)

    def _announce(self) -> None:
        with suppress(OSError):  # on a full disk the node waits like any other
            os.close(os.open(self._file, os.O_CREAT, 0o600))
