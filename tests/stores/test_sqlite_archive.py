"""The contract of the archive on SQLite, and that an older file gets its tables."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts import START_MS, conversation
from tests.contracts.archives import ArchivesContract
from tidings.clock import Clock
from tidings.stores import sqlite_file
from tidings.stores.ports import Tables
from tidings.stores.sqlite_archive import SqliteArchive, open_archive
from tidings.stores.tables_sqlite import SqliteTables, open_sqlite


async def opened(path: Path) -> SqliteTables:
    return await open_sqlite(path, count_read=lambda t, n: None, count_write=lambda t, n: None, clock=Clock())


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[Tables]:
    tables = await opened(tmp_path / "tidings.db")
    yield tables
    await tables.close()


@pytest.fixture
async def archive(tables: SqliteTables) -> SqliteArchive:
    return await open_archive(tables.reads, tables.writes, Clock())


class TestArchives(ArchivesContract): ...


async def test_everything_is_there_after_it_was_closed_and_opened_again(tmp_path: Path) -> None:
    names, fences = set(), []
    for _ in range(2):
        tables = await opened(tmp_path / "kept.db")
        archive = await open_archive(tables.reads, tables.writes, Clock())
        names.add(await archive.archive_id())
        fences.append(await archive.take_fence())
        await tables.close()
    assert len(names) == 1 and fences == [1, 2]


async def test_a_file_of_the_version_before_gets_the_tables_of_this_one(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    sqlite_file.prepare(path, Clock())
    connection = sqlite_file.connect(path)
    for sql in (
        "DROP TABLE archives",
        "DROP TABLE rechecks",
        "UPDATE meta SET value = '1' WHERE key = 'schema_version'",
    ):
        connection.execute(sql)
    connection.close()
    tables = await opened(path)
    archive = await open_archive(tables.reads, tables.writes, Clock())
    id_ = await conversation(tables, "alice")
    await archive.advance(id_, archived_seq=0, next_ms=START_MS)
    assert await archive.rechecks(after=("", ""), limit=10) == []
    await tables.close()
    connection = sqlite_file.connect(path)
    version = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchall()
    connection.close()
    assert version == [(str(sqlite_file.SCHEMA_VERSION),)]


async def test_a_walk_looks_at_no_more_conversations_than_it_was_told(
    archive: SqliteArchive, tables: SqliteTables
) -> None:
    ids = sorted([await conversation(tables, "alice") for _ in range(7)])
    steps, after_id = [], ""
    while True:
        found, next_id = await archive.candidates(after_id=after_id, before_ms=0, limit=3)
        assert not found  # none has an entry
        steps.append(next_id)
        if next_id is None:
            break
        after_id = next_id
    assert steps == [ids[2], ids[5], None]
