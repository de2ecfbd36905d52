"""The database file: made with mode 0600, brought into WAL, given its schema once, opened by every thread the same way.

Several processes may open one file at the same moment: whoever takes the write lock first makes the tables, the others
find them. A file with a newer schema than this version knows is refused, and nothing in it is touched. Every connection
commits with synchronous=FULL, so a commit that returned is on the disk. Called by tables_sqlite.open_sqlite.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import apsw

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Unavailable

SCHEMA_VERSION = 2  # 2: the cold tier; an older Tidings would show archived messages without their text

_LOOK_S = 0.001  # between two looks at a lock; a commit takes about as long
_PAUSE_S = 0.01  # between two attempts at a lock that SQLite does not wait for by itself
_CACHE_KIB = 32 * 1024  # pages of one connection kept in memory


def connect(path: Path, *, is_reader: bool = False, busy_s: float = bounds.SQLITE_BUSY_S) -> apsw.Connection:
    """A connection to a file that `prepare` has seen, for one thread at a time: SQLite takes no locks around it."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    connection = apsw.Connection(str(path), flags=flags, statementcachesize=256)
    # Else a statement with a range or a LIMIT is planned anew whenever other values are bound to it.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_handler(_wait_up_to(busy_s))
    for pragma in (
        "trusted_schema=OFF",
        "synchronous=FULL",
        "temp_store=MEMORY",  # no text in files of the temporary folder
        f"cache_size=-{_CACHE_KIB}",
        f"wal_autocheckpoint={bounds.SQLITE_WAL_PAGES}",
        f"journal_size_limit={bounds.SQLITE_WAL_PAGES * 4 * 4096}",
        f"query_only={int(is_reader)}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def _wait_up_to(busy_s: float) -> Callable[[int], bool]:
    """Looks for the lock every millisecond.

    SQLite's own waiting sleeps up to 100 ms at a time, and a process that commits all the time has it again by then.
    """
    pause = threading.Event()
    tries_max = busy_s / _LOOK_S

    def wait(tries: int) -> bool:
        pause.wait(_LOOK_S)
        return tries < tries_max

    return wait


def prepare(path: Path, clock: Clock) -> str:
    """Makes the file and its tables if need be. Answers the store's epoch; raises Unavailable in one line."""
    try:
        _create_private(path)
        connection = connect(path)
        try:
            _enter_wal(connection, clock)
            return _epoch_of(connection, path, clock)
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
    deadline_s = clock.monotonic_s() + bounds.SQLITE_BUSY_S
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


def _epoch_of(connection: apsw.Connection, path: Path, clock: Clock) -> str:
    """Looks at what is there, under the write lock; an empty file gets the tables."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if not tables:
            _create_tables(connection, clock)
        elif "meta" not in tables:
            raise Unavailable(f"{path} is an SQLite database, but not one of Tidings")
        meta = {str(key): str(value) for key, value in connection.execute("SELECT key, value FROM meta")}
        _check_version(path, int(meta["schema_version"]))
        if int(meta["schema_version"]) < SCHEMA_VERSION:
            _upgrade(connection)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return meta["store_epoch"]


def _schema() -> str:
    return files("tidings.stores").joinpath("tables_sqlite.sql").read_text("utf-8")


def _upgrade(connection: apsw.Connection) -> None:
    """So far later versions only added tables: those that are missing are made."""
    connection.execute(
        _schema().replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS").replace("INDEX", "INDEX IF NOT EXISTS")
    )
    connection.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (str(SCHEMA_VERSION),))


def _create_tables(connection: apsw.Connection, clock: Clock) -> None:
    connection.execute(_schema())
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('schema_version', ?), ('store_epoch', ?)",
        (str(SCHEMA_VERSION), clock.random_id()),
    )


def _check_version(path: Path, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise Unavailable(
            f"{path} has schema version {version}, this Tidings knows {SCHEMA_VERSION}: start the newer Tidings instead"
        )
