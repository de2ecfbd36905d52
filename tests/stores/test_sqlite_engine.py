"""Group commit and its failures, each made with a real database: one errand's, the disk's, the lock's, the commit's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tidings.clock import Clock
from tidings.errors import Conflict, Unavailable
from tidings.stores import sqlite_file
from tidings.stores.sqlite_engine import Bulk, Errand, Hop, Threads, Work, read_together, write_together

_PUT = "INSERT INTO meta (key, value) VALUES (?, ?)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "tidings.db"
    sqlite_file.prepare(made, Clock())
    return made


@pytest.fixture
def connection(path: Path) -> Iterator[apsw.Connection]:
    made = sqlite_file.connect(path, busy_s=0.05)
    yield made
    made.close()


def put(key: str) -> Work[int]:
    return lambda hop: hop.write("meta", _PUT, (key, "value"))


def keys(path: Path) -> set[str]:
    reader = sqlite_file.connect(path, is_reader=True)
    found = {str(key) for (key,) in reader.execute("SELECT key FROM meta").fetchall()}
    reader.close()
    return found - {"schema_version", "store_epoch"}


async def write_all(hop: Hop, *works: Work[Any]) -> list[Any]:
    """Takes the works through one `write_together`; answers each result or error."""
    errands = [Errand(work, asyncio.get_running_loop().create_future()) for work in works]
    write_together(hop, errands)
    for errand in errands:
        errand.settle()
    return await asyncio.gather(*(errand.future for errand in errands), return_exceptions=True)


def put_then_fail(hop: Hop) -> None:
    hop.write("meta", _PUT, ("half", "value"))
    raise ValueError("in the middle")


async def test_all_errands_are_one_transaction(path: Path, connection: apsw.Connection) -> None:
    seen: list[set[str]] = []
    works: list[Work[Any]] = [put("a"), lambda hop: seen.append(keys(path)), put("b")]
    assert await write_all(Hop(connection), *works) == [1, None, 1]
    assert seen == [set()]
    assert keys(path) == {"a", "b"}


async def test_an_errand_that_fails_takes_nobody_else_down(path: Path, connection: apsw.Connection) -> None:
    hop = Hop(connection)
    first, failed, twice, last = await write_all(hop, put("a"), put_then_fail, put("a"), put("b"))
    assert (first, last) == (1, 1)
    assert isinstance(failed, ValueError)
    assert isinstance(twice, Unavailable) and not twice.is_ambiguous
    assert keys(path) == {"a", "b"}
    assert hop.take_tally() == ({}, {"meta": 3})  # with the half that was undone behind its savepoint


async def test_a_verdict_is_answered_without_undoing_anything(path: Path, connection: apsw.Connection) -> None:
    runs = 0

    def count(hop: Hop) -> None:
        nonlocal runs
        runs += 1

    def refuse(hop: Hop) -> None:
        raise Conflict("no")

    answers = await write_all(Hop(connection), count, refuse, put("a"))
    assert isinstance(answers[1], Conflict)
    assert runs == 1 and keys(path) == {"a"}


async def test_a_full_disk_refuses_everyone_and_leaves_nothing(path: Path, connection: apsw.Connection) -> None:
    """`max_page_count` makes SQLite meet the same error as a disk without room."""
    pages = connection.execute("PRAGMA page_count").fetchall()[0][0]
    connection.execute(f"PRAGMA max_page_count={pages}").fetchall()

    def put_much(hop: Hop) -> None:
        hop.write("meta", _PUT, ("much", "x" * 100_000))

    answers = await write_all(Hop(connection), put("a"), put_much)
    assert isinstance(answers[1], Unavailable) and not answers[1].is_ambiguous
    assert "much" not in keys(path)
    # SQLite may give up the one statement or the whole transaction; either way the answer is what happened.
    assert (answers[0] == 1) is ("a" in keys(path))
    connection.execute("PRAGMA max_page_count=1000000").fetchall()
    assert await write_all(Hop(connection), put_much) == [None]


async def test_a_lock_that_is_not_had_in_time_is_not_ambiguous(path: Path, connection: apsw.Connection) -> None:
    rival = sqlite_file.connect(path)
    rival.execute("BEGIN IMMEDIATE")
    answers = await write_all(Hop(connection), put("a"), put("b"))
    assert all(isinstance(answer, Unavailable) and not answer.is_ambiguous for answer in answers)
    rival.execute("ROLLBACK")
    rival.close()
    assert keys(path) == set()
    assert await write_all(Hop(connection), put("a")) == [1]


class _FailingFile(apsw.VFSFile):
    """A file of a disk that breaks when it is told to."""

    def __init__(self, name: Any, flags: list[int], disk: _FailingDisk) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xSync(self, flags: int) -> None:
        if self._disk.is_broken:
            raise apsw.IOError("the disk is broken")
        super().xSync(flags)


class _FailingDisk(apsw.VFS):
    def __init__(self) -> None:
        self.is_broken = False
        super().__init__("failing", "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _FailingFile(name, flags, self)


async def test_a_commit_that_fails_at_the_disk_is_ambiguous_for_everyone(path: Path, tmp_path: Path) -> None:
    """A file system of Python's cannot share memory, so this database has a rollback journal in place of the WAL."""
    disk = _FailingDisk()
    connection = apsw.Connection(str(tmp_path / "other.db"), vfs="failing")
    connection.execute("PRAGMA synchronous=FULL; CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)").fetchall()
    hop = Hop(connection)

    def refuse(hop: Hop) -> None:
        raise Conflict("rests on what is not committed")

    disk.is_broken = True
    answers = await write_all(hop, put("a"), refuse)
    assert all(isinstance(answer, Unavailable) and answer.is_ambiguous for answer in answers)
    assert hop.take_tally() == ({}, {})
    disk.is_broken = False
    assert await write_all(hop, put("a")) == [1]
    connection.close()
    disk.unregister()


async def test_reads_share_one_snapshot_and_fail_alone(path: Path, connection: apsw.Connection) -> None:
    writer = Hop(sqlite_file.connect(path))

    def look(hop: Hop) -> int:
        return len(hop.rows("meta", "SELECT key FROM meta", ()))

    def change(hop: Hop) -> None:
        writer.execute(_PUT, ("a", "value"))

    def fail(hop: Hop) -> None:
        hop.rows("meta", "SELECT nothing FROM meta", ())

    errands = [Errand(work, asyncio.get_running_loop().create_future()) for work in (look, change, fail, look)]
    read_together(Hop(connection), errands)
    assert [errand.result for errand in errands] == [2, None, None, 2]
    assert isinstance(errands[2].error, Unavailable)
    assert not connection.in_transaction
    writer.connection.close()


async def test_a_reader_cannot_write(path: Path) -> None:
    reader = Hop(sqlite_file.connect(path, is_reader=True))
    errand = Errand(put("a"), asyncio.get_running_loop().create_future())
    read_together(reader, [errand])
    assert isinstance(errand.error, Unavailable)
    reader.connection.close()


@pytest.mark.parametrize("count", [0, 1, 16, 17, 31, 33, 64, 100, 200])
def test_a_bulk_writes_every_row_once(connection: apsw.Connection, count: int) -> None:
    hop = Hop(connection)
    bulk = Bulk("meta", "INSERT INTO meta (key, value) VALUES {values}", columns=2)
    assert bulk.write(hop, [(f"{number:04}", str(number)) for number in range(count)]) == count
    found = hop.rows("meta", "SELECT value FROM meta WHERE key < 'a' ORDER BY key", ())
    assert [int(value) for (value,) in found] == list(range(count))
    assert hop.take_tally() == ({"meta": count}, {"meta": count} if count else {})


async def test_what_waits_while_a_thread_is_busy_is_carried_together(path: Path) -> None:
    sizes: list[int] = []
    is_started, may_go_on = threading.Event(), threading.Event()

    def carry(hop: Hop, errands: Any) -> None:
        sizes.append(len(errands))
        read_together(hop, errands)

    def block(hop: Hop) -> None:
        is_started.set()
        may_go_on.wait(10)

    threads = Threads(
        "test", [sqlite_file.connect(path)], carry, count_read=lambda *_: None, count_write=lambda *_: None
    )
    first = asyncio.ensure_future(threads.run(block))
    await asyncio.to_thread(is_started.wait, 10)
    others = [asyncio.ensure_future(threads.run(lambda hop: None)) for _ in range(30)]
    await asyncio.to_thread(lambda: None)  # lets the others be handed over
    may_go_on.set()
    await asyncio.gather(first, *others)
    assert sizes == [1, 30]
    await threads.close()


async def test_nobody_waits_for_ever_when_a_thread_meets_a_mistake_of_ours(path: Path) -> None:
    def carry(hop: Hop, errands: Any) -> None:
        raise ZeroDivisionError

    threads = Threads(
        "test", [sqlite_file.connect(path)], carry, count_read=lambda *_: None, count_write=lambda *_: None
    )
    for _ in range(2):
        with pytest.raises(Unavailable, match="ZeroDivisionError"):
            await threads.run(lambda hop: None)
    await threads.close()


async def test_the_threads_end_with_close(path: Path) -> None:
    connections = [sqlite_file.connect(path) for _ in range(3)]
    threads = Threads("ending", connections, read_together, count_read=lambda *_: None, count_write=lambda *_: None)
    await threads.run(lambda hop: None)
    await threads.close()
    for connection in connections:
        with pytest.raises(apsw.ConnectionClosedError):
            connection.execute("SELECT 1")
