"""The findings about tables that cannot be written, are damaged, or are of another version, each with its fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tests.support.doctor_targets import fill, make_read_only, named, small_disk
from tidings.clock import Clock
from tidings.stores.findings import Finding
from tidings.stores.tables.sqlite.file import file as sqlite_file
from tidings.stores.tables.sqlite.file.examination import check_file


def tables_in(folder: Path) -> Path:
    file = folder / "tidings.db"
    sqlite_file.prepare(file, Clock())
    return file


def examined(file: Path) -> list[Finding]:
    return list(check_file(file, Clock()))


def test_good_tables_are_fine(tmp_path: Path) -> None:
    findings = examined(tables_in(tmp_path))
    assert {finding.level for finding in findings} == {"ok"}
    assert {"tables.schema", "tables.write", "tables.latency"} == {finding.name for finding in findings}


def test_tables_that_are_not_there_yet_are_not_made(tmp_path: Path) -> None:
    (finding,) = examined(tmp_path / "tidings.db")
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
        finding = named(examined(file), "tables.write")
    assert finding.level == "wrong" and "is read-only" in finding.says and "remount,rw" in finding.fix


def test_tables_that_only_may_be_read_are_wrong_though_their_folder_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tables_in(tmp_path)
    opened = apsw.Connection
    # As SQLite does where the file's mode forbids writing, which says nothing to root.
    monkeypatch.setattr(apsw, "Connection", lambda name, flags: opened(name, flags=apsw.SQLITE_OPEN_READONLY))
    finding = named(examined(file), "tables.write")
    assert finding.level == "wrong" and "is read-only" in finding.says and "chmod 600" in finding.fix


def test_tables_on_a_full_disk_are_wrong_or_at_least_told_by_the_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "d", "2m") as disk:
        file = tables_in(disk)
        fill(disk)
        findings = examined(file)
    assert any(finding.level == "wrong" for finding in findings), findings


def test_damaged_tables_are_wrong(tmp_path: Path) -> None:
    file = tables_in(tmp_path)
    with file.open("r+b") as raw:
        raw.seek(4096)
        raw.write(b"\xff" * 8192)
    finding = named(examined(file), "tables.integrity")
    assert finding.level == "wrong" and "restore" in finding.fix


def test_a_file_of_something_else_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is not a database at all" * 100)
    assert named(examined(tmp_path / "text"), "tables.integrity").level == "wrong"
    other = tmp_path / "other.db"
    apsw.Connection(str(other)).execute("CREATE TABLE t (x)")
    assert "not a database of Tidings" in named(examined(other), "tables.schema").says


def test_tables_of_a_newer_version_are_wrong(tmp_path: Path) -> None:
    file = tables_in(tmp_path)
    apsw.Connection(str(file)).execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    assert "schema version 99" in named(examined(file), "tables.schema").says


def test_a_write_lock_that_is_never_given_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.stores.tables.sqlite.file.examination.LOCK_S", 0.1)
    file = tables_in(tmp_path)
    holder = apsw.Connection(str(file))
    holder.execute("BEGIN IMMEDIATE")
    assert "held the write lock" in named(examined(file), "tables.write").says
    holder.execute("ROLLBACK")


def test_a_log_that_is_never_emptied_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tables_in(tmp_path)
    monkeypatch.setattr("tidings.stores.tables.sqlite.file.examination.WAL_BYTES_MAX", 1_000)
    holder = apsw.Connection(str(file))
    holder.execute("PRAGMA wal_autocheckpoint=0; CREATE TABLE t (x); INSERT INTO t VALUES (1)").fetchall()
    assert "has grown to" in named(examined(file), "tables.log").says
