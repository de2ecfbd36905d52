"""Examination of the SQLite file: the doctor's findings about the schema, the write lock, the log and the disk.

The file is opened but never made, and nothing is written: the check takes the write lock and releases it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw

from tidings.bounds import DOCTOR_INTEGRITY_BYTES_MAX, DOCTOR_PINGS
from tidings.clock import Clock
from tidings.stores.findings import Finding, advice, human_bytes, ok, read_times, wrong
from tidings.stores.tables.sqlite.file.bounds import WAL_PAGES
from tidings.stores.tables.sqlite.file.schema import SCHEMA_VERSION

WAL_BYTES_MAX = 64 * WAL_PAGES * 4096  # many times the size at a checkpoint: no checkpoint succeeds
LOCK_S = 2.0  # a commit takes milliseconds


def check_file(file: Path, clock: Clock) -> Iterator[Finding]:
    """Check the file. This blocks, so it runs in a thread."""
    if not file.exists():
        yield ok(
            "tables.reachable", f"{file} does not exist yet; the first start, or `tidings tables create`, makes it"
        )
        return
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(int(1000 * LOCK_S))
            yield from _check_database(connection, file, clock)
    except (apsw.Error, OSError) as error:
        yield _cannot(file, error)


def _check_database(connection: apsw.Connection, file: Path, clock: Clock) -> Iterator[Finding]:
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if "meta" not in names:
        yield wrong("tables.schema", f"{file} is not a database of Tidings", "TIDINGS_TABLES=sqlite:///another/file")
        return
    yield from _check_schema(connection, file)
    yield _check_write_lock(connection, file)
    yield from _check_log(file)
    yield from _check_integrity(connection, file)
    yield _timed(connection, clock)


def _check_schema(connection: apsw.Connection, file: Path) -> Iterator[Finding]:
    found = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchall()
    version = int(str(found[0][0]))
    if version > SCHEMA_VERSION:
        says = f"{file} has schema version {version}, this Tidings knows {SCHEMA_VERSION}"
        yield wrong("tables.schema", says, "start the newer Tidings, which made it")
    else:
        yield ok("tables.schema", f"{file}: {human_bytes(file.stat().st_size)}, schema version {version}")


def _check_write_lock(connection: apsw.Connection, file: Path) -> Finding:
    """A read-only file grants the lock too, because SQLite then only reads: so this is checked first."""
    if connection.readonly("main"):
        return _cannot(file, apsw.ReadOnlyError("opened for reading alone"))
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except apsw.BusyError:
        return advice(
            "tables.write", f"another process held the write lock of {file} for {LOCK_S:g} s", f"fuser -v {file}"
        )
    except apsw.Error as error:
        return _cannot(file, error)
    return ok("tables.write", "SQLite can be written")


def _cannot(file: Path, error: Exception) -> Finding:
    text = " ".join(str(error).split())
    can_write = os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)
    if isinstance(error, apsw.ReadOnlyError) or not can_write:
        fix = f"ls -l {file}; chown and chmod 600 for the node's user; mount -o remount,rw where the disk is read-only"
        return wrong("tables.write", f"{file} is read-only: no message can be stored", fix)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return wrong("tables.integrity", f"{file} is damaged: {text}", "stop the nodes, restore the last backup")
    if isinstance(error, apsw.FullError):
        return wrong("tables.write", f"{file}: the disk is full", f"df -h {file.parent}")
    fix = f"ls -ld {file.parent} {file}*; df -h {file.parent}"
    return wrong("tables.reachable", f"{file} cannot be opened: {text}", fix)


def _check_log(file: Path) -> Iterator[Finding]:
    log = file.with_name(file.name + "-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > WAL_BYTES_MAX:
        says = f"{log} has grown to {human_bytes(size)}: a reader that never ends keeps it from being emptied"
        yield advice("tables.log", says, f"fuser -v {file}; restart the node that holds it longest")


def _check_integrity(connection: apsw.Connection, file: Path) -> Iterator[Finding]:
    """Check small files only, because the check reads the whole file."""
    if file.stat().st_size > DOCTOR_INTEGRITY_BYTES_MAX:
        return
    said = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
    if said != ["ok"]:
        says = f"{file} is damaged: {' '.join(said[0].split())[:200]}"
        yield wrong("tables.integrity", says, "stop the nodes, restore the last backup")


def _timed(connection: apsw.Connection, clock: Clock) -> Finding:
    times_s = []
    for _ in range(DOCTOR_PINGS):
        began_s = clock.monotonic_s()
        connection.execute("SELECT value FROM meta LIMIT 1").fetchall()
        times_s.append(clock.monotonic_s() - began_s)
    return ok("tables.latency", f"SQLite: {read_times(times_s)}")
