"""Group commit and its failures, each made with a real database: one task's, the disk's, the lock's, the commit's."""

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
from tidings.stores.tables.ports import NO_COUNTS
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file import file as sqlite_file
from tidings.stores.tables.sqlite.file.engine import (
    Port,
    Task,
    Threads,
    Transaction,
    Work,
    read_together,
    write_together,
)

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
    return lambda tx: tx.write("meta", _PUT, (key, "value"))


def keys(path: Path) -> set[str]:
    reader = sqlite_file.connect(path, is_reader=True)
    found = {str(key) for (key,) in reader.execute("SELECT key FROM meta").fetchall()}
    reader.close()
    return found - {"schema_version", "store_epoch", "archive_id", "secret"}


async def write_all(tx: Transaction, *works: Work[Any]) -> list[Any]:
    """Takes the works through one `write_together`; answers each result or error."""
    tasks = [Task(work, asyncio.get_running_loop().create_future()) for work in works]
    write_together(tx, tasks)
    for task in tasks:
        task.settle()
    return await asyncio.gather(*(task.future for task in tasks), return_exceptions=True)


def put_then_fail(tx: Transaction) -> None:
    tx.write("meta", _PUT, ("half", "value"))
    raise ValueError("in the middle")


async def test_all_tasks_are_one_transaction(path: Path, connection: apsw.Connection) -> None:
    seen: list[set[str]] = []
    works: list[Work[Any]] = [put("a"), lambda tx: seen.append(keys(path)), put("b")]
    assert await write_all(Transaction(connection), *works) == [1, None, 1]
    assert seen == [set()]
    assert keys(path) == {"a", "b"}


async def test_a_task_that_fails_takes_nobody_else_down(path: Path, connection: apsw.Connection) -> None:
    tx = Transaction(connection)
    first, failed, twice, last = await write_all(tx, put("a"), put_then_fail, put("a"), put("b"))
    assert (first, last) == (1, 1)
    assert isinstance(failed, ValueError)
    assert isinstance(twice, Unavailable) and not twice.is_ambiguous
    assert keys(path) == {"a", "b"}
    assert tx.take_tally() == ({}, {"meta": 3})  # with the half that was undone behind its savepoint


async def test_a_verdict_is_answered_without_undoing_anything(path: Path, connection: apsw.Connection) -> None:
    runs = 0

    def count(tx: Transaction) -> None:
        nonlocal runs
        runs += 1

    def refuse(tx: Transaction) -> None:
        raise Conflict("no")

    answers = await write_all(Transaction(connection), count, refuse, put("a"))
    assert isinstance(answers[1], Conflict)
    assert runs == 1 and keys(path) == {"a"}


async def test_a_full_disk_refuses_everyone_and_leaves_nothing(path: Path, connection: apsw.Connection) -> None:
    """`max_page_count` makes SQLite meet the same error as a disk without room."""
    pages = connection.execute("PRAGMA page_count").fetchall()[0][0]
    connection.execute(f"PRAGMA max_page_count={pages}").fetchall()

    def put_much(tx: Transaction) -> None:
        tx.write("meta", _PUT, ("much", "x" * 100_000))

    answers = await write_all(Transaction(connection), put("a"), put_much)
    assert isinstance(answers[1], Unavailable) and not answers[1].is_ambiguous
    assert "much" not in keys(path)
    # SQLite may give up the one statement or the whole transaction; either way the answer is what happened.
    assert (answers[0] == 1) is ("a" in keys(path))
    connection.execute("PRAGMA max_page_count=1000000").fetchall()
    assert await write_all(Transaction(connection), put_much) == [None]


async def test_a_lock_that_is_not_had_in_time_is_not_ambiguous(path: Path, connection: apsw.Connection) -> None:
    rival = sqlite_file.connect(path)
    rival.execute("BEGIN IMMEDIATE")
    answers = await write_all(Transaction(connection), put("a"), put("b"))
    assert all(isinstance(answer, Unavailable) and not answer.is_ambiguous for answer in answers)
    rival.execute("ROLLBACK")
    rival.close()
    assert keys(path) == set()
    assert await write_all(Transaction(connection), put("a")) == [1]


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
    tx = Transaction(connection)

    def refuse(tx: Transaction) -> None:
        raise Conflict("rests on what is not committed")

    disk.is_broken = True
    answers = await write_all(tx, put("a"), refuse)
    assert all(isinstance(answer, Unavailable) and answer.is_ambiguous for answer in answers)
    assert tx.take_tally() == ({}, {})
    disk.is_broken = False
    assert await write_all(tx, put("a")) == [1]
    connection.close()
    disk.unregister()


async def test_reads_share_one_snapshot_and_fail_alone(path: Path, connection: apsw.Connection) -> None:
    writer = Transaction(sqlite_file.connect(path))

    def look(tx: Transaction) -> int:
        return len(tx.rows("meta", "SELECT key FROM meta", ()))

    def change(tx: Transaction) -> None:
        writer.execute(_PUT, ("a", "value"))

    def fail(tx: Transaction) -> None:
        tx.rows("meta", "SELECT nothing FROM meta", ())

    tasks = [Task(work, asyncio.get_running_loop().create_future()) for work in (look, change, fail, look)]
    read_together(Transaction(connection), tasks)
    assert [task.result for task in tasks] == [4, None, None, 4]
    assert isinstance(tasks[2].error, Unavailable)
    assert not connection.in_transaction
    writer.connection.close()


async def test_a_reader_cannot_write(path: Path) -> None:
    reader = Transaction(sqlite_file.connect(path, is_reader=True))
    task = Task(put("a"), asyncio.get_running_loop().create_future())
    read_together(reader, [task])
    assert isinstance(task.error, Unavailable)
    reader.connection.close()


async def test_what_waits_while_a_thread_is_busy_is_carried_together(path: Path) -> None:
    sizes: list[int] = []
    is_started, may_go_on = threading.Event(), threading.Event()

    def carry(tx: Transaction, tasks: Any) -> None:
        sizes.append(len(tasks))
        read_together(tx, tasks)

    def block(tx: Transaction) -> None:
        is_started.set()
        may_go_on.wait(10)

    threads = Threads("test", [sqlite_file.connect(path)], carry, NO_COUNTS)
    first = asyncio.ensure_future(threads.run(block))
    await asyncio.to_thread(is_started.wait, 10)
    others = [asyncio.ensure_future(threads.run(lambda tx: None)) for _ in range(30)]
    await asyncio.to_thread(lambda: None)  # lets the others be handed over
    may_go_on.set()
    await asyncio.gather(first, *others)
    assert sizes == [1, 30]
    await threads.close()


async def test_it_is_quiet_when_what_was_under_way_is_settled_or_after_a_while(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work that keeps the loop busy waits for a commit, but not for a disk that hangs."""
    is_started, may_go_on = threading.Event(), threading.Event()

    def block(tx: Transaction) -> None:
        is_started.set()
        may_go_on.wait(60)

    threads = Threads("test", [sqlite_file.connect(path)], read_together, NO_COUNTS)
    await threads.quiet()
    working = asyncio.ensure_future(threads.run(block))
    await asyncio.to_thread(is_started.wait, 60)
    monkeypatch.setattr(bounds, "QUIET_S", 0.01)
    await threads.quiet()
    assert not working.done(), "it gave way for a while only"
    monkeypatch.setattr(bounds, "QUIET_S", 3_600)
    waiting = [asyncio.ensure_future(threads.quiet()) for _ in range(3)]
    await asyncio.to_thread(lambda: None)
    assert not any(one.done() for one in waiting)
    may_go_on.set()
    await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert working.done()
    await threads.close()


async def test_nobody_waits_for_ever_when_a_thread_meets_a_mistake_of_ours(path: Path) -> None:
    def carry(tx: Transaction, tasks: Any) -> None:
        raise ZeroDivisionError

    threads = Threads("test", [sqlite_file.connect(path)], carry, NO_COUNTS)
    for _ in range(2):
        with pytest.raises(Unavailable, match="ZeroDivisionError"):
            await threads.run(lambda tx: None)
    await threads.close()


async def test_an_error_names_the_store_and_the_function(path: Path) -> None:
    def append(tx: Transaction) -> None:
        raise Conflict("somebody was first")

    threads = Threads("test", [sqlite_file.connect(path)], read_together, NO_COUNTS)
    with pytest.raises(Conflict) as caught:
        await threads.run(append)
    assert (caught.value.store, caught.value.op) == ("tables", "append")
    await threads.close()


async def test_an_error_of_a_lambda_names_the_method_of_the_port(path: Path) -> None:
    class Rows(Port):
        async def scan(self) -> None:
            await self._read(lambda tx: tx.rows("nothing", "SELECT * FROM nothing", ()))

    threads = Threads("test", [sqlite_file.connect(path)], read_together, NO_COUNTS)
    with pytest.raises(Unavailable) as caught:
        await Rows(threads, threads).scan()
    assert caught.value.op == "scan"
    await threads.close()


async def test_the_threads_end_with_close(path: Path) -> None:
    connections = [sqlite_file.connect(path) for _ in range(3)]
    threads = Threads("ending", connections, read_together, NO_COUNTS)
    await threads.run(lambda tx: None)
    await threads.close()
    for connection in connections:
        with pytest.raises(apsw.ConnectionClosedError):
            connection.execute("SELECT 1")


async def test_an_upkeep_that_fails_ends_no_thread_and_holds_up_no_end(path: Path) -> None:
    def fails(tx: Transaction, is_last: bool) -> None:
        raise OSError("no space left on device")

    writer = sqlite_file.connect(path, busy_s=0.05)
    threads = Threads("writer", [writer], write_together, NO_COUNTS, fails)
    async with asyncio.timeout(60):
        assert await threads.run(put("one")) == 1
        assert await threads.run(put("two")) == 1
        await threads.close()
    assert keys(path) == {"one", "two"}
