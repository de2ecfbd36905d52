"""The write-ahead log: bounded whatever readers do, and without texts that were erased."""

from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path

import apsw
import pytest

from tests.contracts import conversation, group, log, message
from tests.contracts.messages import edit
from tests.stores.tables.sqlite.conftest import Counts
from tests.support.waiting import eventually
from tidings.clock import Clock
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file import file as sqlite_file
from tidings.stores.tables.sqlite.file.checkpoint import Checkpoints, Gate

SECRET = "the very text that must go"


def log_bytes(path: Path) -> int:
    wal = path.with_name(path.name + "-wal")
    return wal.stat().st_size if wal.exists() else 0


def holds(path: Path, text: str) -> list[str]:
    """The files that hold the text, as somebody would find it who has the disk."""
    names = ("", "-wal", "-shm")
    files = [path.with_name(path.name + name) for name in names]
    return [file.name for file in files if file.exists() and text.encode() in file.read_bytes()]


async def fill(tables: Tables, conversation_id: str, size: int, *, start: int = 1) -> None:
    for seq_no in range(start, start + size // 10_000):
        await tables.log.append([group(message(conversation_id, seq_no, "x" * 10_000))])


async def test_a_log_past_its_bound_is_emptied_by_a_node(
    path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LOG_BYTES_MAX", 200_000)
    tables = await counts.open(path)
    c = await conversation(tables, "alice")
    await fill(tables, c, 300_000)
    await eventually(lambda: log_bytes(path) <= 200_000)
    assert len(await log(tables, c)) == 30
    await tables.close()


async def test_a_log_that_a_reader_needs_is_emptied_when_the_reader_is_gone(
    path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LOG_BYTES_MAX", 200_000)
    monkeypatch.setattr(bounds, "EMPTY_S", 0.01)
    monkeypatch.setattr(bounds, "LOG_RETRY_S", 0.05)
    tables = await counts.open(path)
    c = await conversation(tables, "alice")
    reader = sqlite_file.connect(path, is_reader=True)
    reader.execute("BEGIN; SELECT count(*) FROM messages").fetchall()
    await fill(tables, c, 300_000)
    assert log_bytes(path) > 200_000, "no commit waits for it"
    reader.execute("COMMIT")
    await eventually(lambda: log_bytes(path) <= 200_000)
    reader.close()
    await tables.close()


async def test_readers_of_every_node_wait_at_a_closed_gate(path: Path, tables: Tables) -> None:
    c = await conversation(tables, "alice")
    with Gate(path, Clock()).closed() as is_ours:
        assert is_ours
        reading = asyncio.ensure_future(log(tables, c))
        await tables.log.append([group(message(c, 1))])
        assert not reading.done()
    assert [entry.seq_no for entry in await reading] == [1], "read after the gate was opened"


async def test_a_gate_that_a_dead_node_left_holds_up_nobody(path: Path, tables: Tables) -> None:
    gate = path.with_name(path.name + "-pause")
    gate.touch()
    os.utime(gate, (1.0, 1.0))
    c = await conversation(tables, "alice")
    assert await log(tables, c) == []
    with Gate(path, Clock()).closed() as is_ours:
        assert is_ours
    assert not gate.exists()


def test_one_node_at_a_time_closes_the_gate(path: Path) -> None:
    with Gate(path, Clock()).closed() as first, Gate(path, Clock()).closed() as second:
        assert first and not second


@pytest.mark.parametrize("how", ["delete", "edit", "conversation"])
async def test_an_erased_text_leaves_the_file_and_its_log(
    path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(bounds, "ERASED_S", 0.0)
    tables = await counts.open(path)
    c = await conversation(tables, "alice")
    await tables.log.append([group(message(c, 1, SECRET), message(c, 2, SECRET + "y" * 9_000))])
    assert holds(path, SECRET)
    if how == "conversation":
        await tables.conversations.delete(c)
    else:
        content = None if how == "delete" else "another"
        for target in await log(tables, c):
            await tables.log.append([edit(c, 2 + target.seq_no, target, content)])
    await eventually(lambda: holds(path, SECRET) == [])
    await tables.close()
    assert holds(path, SECRET) == []


async def test_a_node_that_ends_leaves_no_erased_text_in_a_log_that_others_keep(path: Path, counts: Counts) -> None:
    tables, other = await counts.open(path), await counts.open(path)
    c = await conversation(tables, "alice")
    await tables.log.append([group(message(c, 1, SECRET))])
    await tables.conversations.delete(c)
    assert holds(path, SECRET), "the log is not emptied at once"
    await tables.close()
    assert holds(path, SECRET) == []
    await other.close()


def test_an_emptying_that_fails_is_tried_again_later(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "EMPTY_S", 0.01)
    monkeypatch.setattr(bounds, "ERASED_S", 0.0)
    sqlite_file.prepare(path, Clock())
    writer, reader = sqlite_file.connect(path), sqlite_file.connect(path, is_reader=True)
    reader.execute("BEGIN; SELECT count(*) FROM messages").fetchall()
    writer.execute("INSERT INTO meta VALUES ('x', 'y')")
    checkpoints = Checkpoints(path, Gate(path, Clock()), Clock())
    assert checkpoints.run(writer) is None, "nothing is due"
    checkpoints.erased()
    rest_s = checkpoints.run(writer)
    assert rest_s is not None and 0 < rest_s <= bounds.LOG_RETRY_S
    pauses_s = [bounds.LOG_RETRY_S]
    for _ in range(7):
        monkeypatch.setattr(checkpoints, "_not_before_s", 0.0)
        began_s = Clock().monotonic_s()
        checkpoints.run(writer)
        pauses_s.append(checkpoints._not_before_s - began_s)
    assert all(later > before for before, later in itertools.pairwise(pauses_s[:5])), "soon at first, then later"
    assert pauses_s[-1] >= bounds.LOG_RETRY_S_MAX
    reader.execute("COMMIT")
    monkeypatch.setattr(checkpoints, "_not_before_s", 0.0)
    assert checkpoints.run(writer) is None and log_bytes(path) == 0


def test_a_connection_waits_for_locks_without_python(path: Path) -> None:
    """A lock that another connection gives back is had without an error."""
    sqlite_file.prepare(path, Clock())
    holder, waiting = sqlite_file.connect(path), sqlite_file.connect(path, busy_s=0.02)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(apsw.BusyError):
        waiting.execute("BEGIN IMMEDIATE")
    holder.execute("ROLLBACK")
    waiting.execute("BEGIN IMMEDIATE")
