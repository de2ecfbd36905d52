"""The tables: can they be reached, read and written, are they of our version, and are they safe?

SQLite is opened as it is, never made: whether it could be opened for writing is asked, and the write lock is taken and
given back, so nothing is written. DynamoDB's tables are compared with what they should be. Called by examination.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from tidings.bounds import DOCTOR_INTEGRITY_BYTES_MAX, DOCTOR_PINGS, SQLITE_WAL_PAGES
from tidings.clock import Clock
from tidings.doctor.findings import Finding, advice, human_bytes, ok, quantile, unknown, wrong
from tidings.errors import StoreError, Unavailable
from tidings.stores.sqlite_file import SCHEMA_VERSION

if TYPE_CHECKING:
    from tidings.stores.dynamodb_wire import Place, Wire

WAL_BYTES_MAX = 64 * SQLITE_WAL_PAGES * 4096  # many times what a checkpoint takes away: none comes through
LOCK_S = 2.0  # a commit takes milliseconds
_LOOKS = 5  # requests for p50 and p99 of DynamoDB: each is paid for


# --- SQLite ---------------------------------------------------------------------------------------


def check_sqlite(file: Path, clock: Clock) -> Iterator[Finding]:
    """Blocks; for a thread."""
    if not file.exists():
        yield ok("tables.reachable", f"there is no {file} yet; the first start, or `tidings tables create`, makes it")
        return
    try:
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(int(1000 * LOCK_S))
            yield from _check_file(connection, file, clock)
    except (apsw.Error, OSError) as error:
        yield _cannot(file, error)


def _check_file(connection: apsw.Connection, file: Path, clock: Clock) -> Iterator[Finding]:
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
    """A file that may only be read gives the lock as well: SQLite then begins to read."""
    if connection.readonly("main"):
        return _cannot(file, apsw.ReadOnlyError("opened for reading alone"))
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except apsw.BusyError:
        return advice("tables.write", f"somebody held the write lock of {file} for {LOCK_S:g} s", f"fuser -v {file}")
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
    """Of small files only: it reads all of them."""
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
    return ok("tables.latency", f"SQLite: {_quantiles(times_s)}")


def _quantiles(times_s: list[float]) -> str:
    p50_ms, p99_ms = (1000 * quantile(times_s, share) for share in (0.5, 0.99))
    return f"a read takes {p50_ms:.2f} ms (p99 {p99_ms:.2f} ms)"


# --- DynamoDB -------------------------------------------------------------------------------------


async def check_dynamodb(url: str, clock: Clock) -> list[Finding]:
    try:
        from tidings.stores import dynamodb_schema
        from tidings.stores.dynamodb_wire import open_wire, place_of
    except ImportError as error:
        return [
            wrong(
                "tables.reachable", f"dynamodb:// needs a library ({error})", "pip install '.[dynamodb]' in the clone"
            )
        ]
    try:
        place = place_of(url)
        differences = await dynamodb_schema.check(place, clock)
    except (StoreError, ValueError) as error:
        return [_unreachable(error)]
    wire = open_wire(place, clock, lambda kind, units: None)
    try:
        return [
            *(wrong("tables.schema", line, "tidings tables create") for line in differences),
            *([] if differences else [ok("tables.schema", "DynamoDB's tables are as they should be")]),
            *(await _check_backups(wire, place) if not differences else []),
            await _timed_requests(wire, clock),
        ]
    except StoreError as error:
        return [_unreachable(error)]
    finally:
        wire.close()


def _unreachable(error: Exception) -> Finding:
    why = " ".join(str(error).split())
    fix = "TIDINGS_TABLES=dynamodb://region?endpoint=…: are region and endpoint right, and may this machine reach them?"
    if any(word in why for word in ("credential", "Token", "Signature", "AccessDenied", "UnrecognizedClient")):
        fix = "give it credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role"
    return wrong("tables.reachable", f"DynamoDB: {why}", fix)


async def _check_backups(wire: Wire, place: Place) -> list[Finding]:
    """Point-in-time recovery: the tables are the truth, and nothing else can bring them back."""
    from tidings.stores.dynamodb_schema import definitions

    bare = []
    for definition in definitions():
        name = place.prefix + definition.name
        try:
            said = await wire.call("DescribeContinuousBackups", {"TableName": name})
        except Unavailable as error:
            return [
                unknown("tables.backups", f"point-in-time recovery is not told: {' '.join(str(error).split())[:120]}")
            ]
        status = said["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        if status.get("PointInTimeRecoveryStatus") != "ENABLED":
            bare.append(name)
    if bare:
        words = "PointInTimeRecoveryEnabled=true"
        fix = (
            f"aws dynamodb update-continuous-backups --table-name {bare[0]} "
            f"--point-in-time-recovery-specification {words}; and so for each"
        )
        return [advice("tables.backups", f"no point-in-time recovery of {', '.join(bare)}", fix)]
    return [ok("tables.backups", "point-in-time recovery is on")]


async def _timed_requests(wire: Wire, clock: Clock) -> Finding:
    times_s = []
    for _ in range(_LOOKS):
        began_s = clock.monotonic_s()
        await wire.call("ListTables", {"Limit": 1})
        times_s.append(clock.monotonic_s() - began_s)
    return ok("tables.latency", f"DynamoDB: {_quantiles(times_s)}")
