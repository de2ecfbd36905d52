"""Tables that cannot be written, are damaged, of another version or without a backup are told with the fix."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tests.doctor.patients import fill, make_read_only, named, small_disk
from tests.dynamodb_local import DynamoLocal, fresh_prefix
from tests.dynamodb_local import dynamodb as dynamodb
from tidings.clock import Clock
from tidings.doctor.findings import Finding
from tidings.doctor.tables import check_dynamodb, check_sqlite
from tidings.stores import sqlite_file
from tidings.stores.tables_dynamodb import create_tables


def tables_in(folder: Path) -> Path:
    file = folder / "tidings.db"
    sqlite_file.prepare(file, Clock())
    return file


def look_at(file: Path) -> list[Finding]:
    return list(check_sqlite(file, Clock()))


def test_good_tables_are_fine(tmp_path: Path) -> None:
    findings = look_at(tables_in(tmp_path))
    assert {finding.level for finding in findings} == {"ok"}
    assert {"tables.schema", "tables.write", "tables.latency"} == {finding.name for finding in findings}


def test_tables_that_are_not_there_yet_are_not_made(tmp_path: Path) -> None:
    (finding,) = look_at(tmp_path / "tidings.db")
    assert finding.level == "ok" and list(tmp_path.iterdir()) == []


@contextmanager
def read_only_tables(folder: Path) -> Iterator[Path]:
    """On a disk that may not be written: the mode of a file says nothing to root."""
    with small_disk(folder / "d", "8m") as disk:
        file = tables_in(disk)
        make_read_only(disk)
        yield file


def test_read_only_tables_are_wrong(tmp_path: Path) -> None:
    with read_only_tables(tmp_path) as file:
        finding = named(look_at(file), "tables.write")
    assert finding.level == "wrong" and "is read-only" in finding.says and "remount,rw" in finding.fix


def test_tables_that_only_may_be_read_are_wrong_though_their_folder_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tables_in(tmp_path)
    opened = apsw.Connection
    # As SQLite does where the file's mode forbids writing, which says nothing to root.
    monkeypatch.setattr(apsw, "Connection", lambda name, flags: opened(name, flags=apsw.SQLITE_OPEN_READONLY))
    finding = named(look_at(file), "tables.write")
    assert finding.level == "wrong" and "is read-only" in finding.says and "chmod 600" in finding.fix


def test_tables_on_a_full_disk_are_wrong_or_at_least_told_by_the_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "d", "2m") as disk:
        file = tables_in(disk)
        fill(disk)
        findings = look_at(file)
    assert any(finding.level == "wrong" for finding in findings), findings


def test_damaged_tables_are_wrong(tmp_path: Path) -> None:
    file = tables_in(tmp_path)
    with file.open("r+b") as raw:
        raw.seek(4096)
        raw.write(b"\xff" * 8192)
    finding = named(look_at(file), "tables.integrity")
    assert finding.level == "wrong" and "restore" in finding.fix


def test_a_file_of_something_else_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is not a database at all" * 100)
    assert named(look_at(tmp_path / "text"), "tables.integrity").level == "wrong"
    other = tmp_path / "other.db"
    apsw.Connection(str(other)).execute("CREATE TABLE t (x)")
    assert "not a database of Tidings" in named(look_at(other), "tables.schema").says


def test_tables_of_a_newer_version_are_wrong(tmp_path: Path) -> None:
    file = tables_in(tmp_path)
    apsw.Connection(str(file)).execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    assert "schema version 99" in named(look_at(file), "tables.schema").says


def test_a_write_lock_that_is_never_given_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.doctor.tables.LOCK_S", 0.1)
    file = tables_in(tmp_path)
    holder = apsw.Connection(str(file))
    holder.execute("BEGIN IMMEDIATE")
    assert "held the write lock" in named(look_at(file), "tables.write").says
    holder.execute("ROLLBACK")


def test_a_log_that_is_never_emptied_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tables_in(tmp_path)
    monkeypatch.setattr("tidings.doctor.tables.WAL_BYTES_MAX", 1_000)
    holder = apsw.Connection(str(file))
    holder.execute("PRAGMA wal_autocheckpoint=0; CREATE TABLE t (x); INSERT INTO t VALUES (1)").fetchall()
    assert "has grown to" in named(look_at(file), "tables.log").says


# --- DynamoDB -------------------------------------------------------------------------------------


def test_dynamodbs_tables_are_compared_and_their_backups_asked_for(dynamodb: DynamoLocal) -> None:
    url = dynamodb.url(fresh_prefix())

    async def look() -> list[Finding]:
        missing = await check_dynamodb(url, Clock())
        assert named(missing, "tables.schema").level == "wrong" and "missing" in named(missing, "tables.schema").says
        assert named(missing, "tables.schema").fix == "tidings tables create"
        await create_tables(url)
        return await check_dynamodb(url, Clock())

    findings = asyncio.run(look())
    assert named(findings, "tables.schema").level == "ok"
    assert named(findings, "tables.backups").level in ("advice", "unknown")
    assert "DynamoDB: a read takes" in named(findings, "tables.latency").says


def test_a_dynamodb_that_does_not_answer_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    monkeypatch.setattr("tidings.bounds.DYNAMODB_DEADLINE_S", 0.2)
    url = "dynamodb://eu-west-1?endpoint=http://127.0.0.1:1"
    (finding,) = asyncio.run(check_dynamodb(url, Clock()))
    assert finding.level == "wrong" and finding.name == "tables.reachable"
