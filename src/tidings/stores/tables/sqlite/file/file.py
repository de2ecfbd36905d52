"""The database file: made with mode 0600, brought into WAL and up to date, opened by every thread the same way.

Several processes may open one file at the same moment: the process that takes the write lock first makes the tables or
migrates them, the others find them ready. Every connection commits with synchronous=FULL, so a commit that returned is
on the disk.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import apsw

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file.schema import Identity, bring_up_to_date

_PAUSE_S = 0.01  # between two attempts at a lock that SQLite does not wait for by itself
_CACHE_KIB = 32 * 1024  # pages of one connection kept in memory


def connect(path: Path, *, is_reader: bool = False, busy_s: float = bounds.BUSY_S) -> apsw.Connection:
    """Connect to a file that `prepare` has seen, for one thread at a time: SQLite takes no locks around it."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    connection = apsw.Connection(str(path), flags=flags, statementcachesize=256)
    # Else a statement with a range or a LIMIT is planned anew whenever other values are bound to it.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    wait_for_locks(connection, busy_s)
    for pragma in (
        "trusted_schema=OFF",
        "synchronous=FULL",
        "secure_delete=ON",  # an erased text is overwritten, in its page and in pages that it frees
        "temp_store=MEMORY",  # no text in files of the temporary folder
        f"cache_size=-{_CACHE_KIB}",
        f"wal_autocheckpoint={bounds.WAL_PAGES}",
        f"journal_size_limit={bounds.WAL_PAGES * 4 * 4096}",
        f"query_only={int(is_reader)}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def wait_for_locks(connection: apsw.Connection, busy_s: float) -> None:
    """Wait this long for locks of others, in C: a wait in Python needs the GIL of a busy process for each try.

    SQLite tries a lock that another process has every millisecond. For locks between threads of one process it sleeps
    up to 100 ms at a time, but there is one writer thread.
    """
    connection.set_busy_timeout(int(1000 * busy_s))
    connection.setlk_timeout(int(1000 * busy_s), 0)


def prepare(path: Path, clock: Clock) -> Identity:
    """Make the file and its tables if need be; raise Unavailable in one line."""
    try:
        _create_private(path)
        connection = connect(path)
        try:
            _enter_wal(connection, clock)
            return _brought_up_to_date(connection, path, clock)
        finally:
            connection.close()
    except (apsw.Error, OSError) as error:
        raise Unavailable(f"cannot open {path}: {error}") from error


def _create_private(path: Path) -> None:
    """SQLite gives the -wal and -shm files the mode of the database, so only leftovers need a chmod of their own."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for suffix in ("", "-wal", "-shm"):
        leftover = path.with_name(path.name + suffix)
        if leftover.exists():
            leftover.chmod(0o600)


def _enter_wal(connection: apsw.Connection, clock: Clock) -> None:
    """SQLite answers BUSY at once when two processes switch the same file, so the waiting is done here."""
    deadline_s = clock.monotonic_s() + bounds.BUSY_S
    pause = threading.Event()
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchall()[0][0]
        except apsw.BusyError:
            if clock.monotonic_s() > deadline_s:
                raise
            pause.wait(_PAUSE_S)
        else:
            if mode != "wal":
                raise Unavailable(f"the file system of the tables does not allow WAL (journal_mode is {mode})")
            return


def _brought_up_to_date(connection: apsw.Connection, path: Path, clock: Clock) -> Identity:
    connection.execute("BEGIN IMMEDIATE")
    try:
        identity = bring_up_to_date(connection, str(path), clock)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return identity
