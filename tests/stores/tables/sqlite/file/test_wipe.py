"""A wipe: nothing is left of removed rows, and nothing else changes, whoever uses the file meanwhile."""

from __future__ import annotations

import asyncio
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.tables.sqlite.file import bounds, checkpoint
from tidings.stores.tables.sqlite.file import wipe as wiping
from tidings.stores.tables.sqlite.file.checkpoint import Checkpoints, Gate
from tidings.stores.tables.sqlite.file.file import connect
from tidings.stores.tables.sqlite.file.wipe import _Wipe, unused, wipe

ROWS = 4_000
_MADE = "CREATE TABLE texts (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID"
_PUT = "INSERT INTO texts VALUES (?, ?)"
_TEXT = re.compile(rb"text-([0-9a-f]{16})")
_WRITER = """
import random, sys
from pathlib import Path
from tidings.clock import Clock
from tidings.stores.tables.sqlite.file.file import connect
from tidings.stores.tables.sqlite.file.turns import Turns
path, chance, live = Path(sys.argv[1]), random.Random(int(sys.argv[2])), []
writer, turns = connect(path), Turns(path, Clock())
while True:
    key = f"{chance.getrandbits(64):016x}"
    turns.begin(writer)
    writer.execute("INSERT INTO texts VALUES (?, ?)", (key, "text-" + key + "." * chance.choice((0, 90, 900, 9000))))
    gone = live.pop(chance.randrange(len(live))) if len(live) > 20 else ""
    writer.execute("DELETE FROM texts WHERE key = ?", (gone,))
    writer.execute("COMMIT")
    live.append(key)
    print(key, gone, flush=True)
    turns.give_way()
"""
_WIPER = """
import asyncio, sys
from pathlib import Path
from tidings.clock import Clock
from tidings.stores.tables.sqlite.file.wipe import wipe
while True:
    asyncio.run(wipe(Path(sys.argv[1]), Clock()))
    print("wiped", flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.db"
    path.touch()
    return path


def made(path: Path) -> apsw.Connection:
    connection = connect(path)
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute(_MADE)
    return connection


def key_of(chance: random.Random) -> str:
    return f"{chance.getrandbits(64):016x}"


def row_of(key: str, chance: random.Random) -> tuple[str, str]:
    return key, f"text-{key}" + "." * chance.choice((0, 90, 900, 9000))


def after_each_slice(monkeypatch: pytest.MonkeyPatch, work: Callable[[_Wipe], object]) -> None:
    """Make slices small, and do this work after each of them."""
    monkeypatch.setattr(bounds, "WIPE_PAGES", 16)
    slice_ = _Wipe._slice

    def slice_and_work(wiping: _Wipe, *arguments: Any) -> bool:
        is_done = slice_(wiping, *arguments)
        work(wiping)
        return is_done

    monkeypatch.setattr(_Wipe, "_slice", slice_and_work)


def after_last_slice(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    empty = _Wipe._empty_log

    def work_and_empty(wiping: _Wipe) -> bool:
        work()
        return empty(wiping)

    monkeypatch.setattr(_Wipe, "_empty_log", work_and_empty)


def live_and_die(writer: apsw.Connection, seed: int = 7) -> tuple[set[str], set[str]]:
    """Write texts in an order that divides pages, and remove half. Returns the keys that stay and those that go."""
    chance = random.Random(seed)
    keys = [key_of(chance) for _ in range(ROWS)]
    with writer:
        writer.executemany(_PUT, (row_of(key, chance) for key in keys))
    gone = set(keys[::2])
    with writer:
        writer.executemany("DELETE FROM texts WHERE key = ?", ((key,) for key in sorted(gone)))
    return set(keys) - gone, gone


def found(path: Path) -> set[str]:
    """The keys of the texts whose bytes are in the file or in its log."""
    raw = path.read_bytes() + path.with_name(path.name + "-wal").read_bytes()
    return {match.decode() for match in _TEXT.findall(raw)}


def is_whole(writer: apsw.Connection, keys: set[str]) -> bool:
    stored = {str(key) for key, text in writer.execute("SELECT key, text FROM texts") if f"text-{key}" in str(text)}
    return stored == keys and writer.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_after_a_wipe_nothing_is_left_of_removed_rows(path: Path) -> None:
    writer = made(path)
    live, gone = live_and_die(writer)
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert found(path) & gone, "secure_delete leaves copies behind"
    assert await wipe(path, Clock())
    assert found(path) & gone == set() and live <= found(path)
    assert is_whole(writer, live)


async def test_a_connection_that_has_read_the_old_bytes_does_not_write_them_again(path: Path) -> None:
    writer = made(path)
    live, gone = live_and_die(writer)
    assert await wipe(path, Clock())
    writer.execute("UPDATE texts SET text = text || '!'")
    assert found(path) & gone == set()
    assert is_whole(writer, live)


async def test_a_wipe_that_died_before_its_commit_is_made_up_for_by_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes in the file are zero then, and a connection still has the old ones in memory."""
    writer = made(path)
    live, gone = live_and_die(writer)
    overwrite = _Wipe._overwrite

    def overwrite_and_die(wiping: _Wipe, begin: int, end: int) -> bool:
        overwrite(wiping, begin, 1 << 40)
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(_Wipe, "_overwrite", overwrite_and_die)
        with pytest.raises(Unavailable, match="killed"):
            await wipe(path, Clock())
    assert await wipe(path, Clock())
    writer.execute("UPDATE texts SET text = text || '!'")
    assert found(path) & gone == set() and is_whole(writer, live)


async def test_writes_between_two_slices_bring_no_removed_row_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that divides pages gives a page that waits the number of one that is wiped, with its unused bytes."""
    writer, other, chance = made(path), connect(path), random.Random(101)
    live, gone = live_and_die(writer, 1)

    def send(_: _Wipe) -> None:
        for key in [key_of(chance) for _ in range(8)]:
            other.execute(_PUT, row_of(key, chance))
            live.add(key)
        other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # as a node does when the log is long
        other.execute("PRAGMA user_version = 0")  # a log that is in the file would begin anew here

    after_each_slice(monkeypatch, send)
    assert await wipe(path, Clock())
    assert found(path) & gone == set() and is_whole(writer, live)


async def test_a_log_that_readers_keep_long_hides_no_write_between_two_slices(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice has a reader of its time beside it, so the log goes on and does not begin anew."""
    writer, other, chance = made(path), connect(path), random.Random(100)
    live, gone = live_and_die(writer)
    readers = [connect(path, is_reader=True) for _ in range(2)]

    def send_and_read(_: _Wipe) -> None:
        for key in [key_of(chance) for _ in range(8)]:
            other.execute(_PUT, row_of(key, chance))
            live.add(key)
        readers.reverse()
        readers[0].execute("BEGIN; SELECT 1 FROM texts LIMIT 1").fetchall()
        if readers[1].in_transaction:
            readers[1].execute("COMMIT")

    after_each_slice(monkeypatch, send_and_read)
    after_last_slice(monkeypatch, lambda: readers[0].execute("COMMIT"))
    assert await wipe(path, Clock())
    assert found(path) & gone == set() and is_whole(writer, live)


async def test_a_wipe_makes_up_for_another_one_that_dies_beside_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one wrote zeros and made no commit. So this one finds nothing to do, but connections have old bytes."""
    writer, slices = made(path), 0
    live, gone = live_and_die(writer)

    def read_then_die(wiping: _Wipe) -> None:
        nonlocal slices
        slices += 1
        if slices == 1:
            writer.execute("SELECT sum(length(text)) FROM texts").fetchall()
            wiping._overwrite(wiping._page_size, 1 << 40)

    after_each_slice(monkeypatch, read_then_die)
    after_last_slice(monkeypatch, lambda: writer.execute("UPDATE texts SET text = text || '!'"))
    assert await wipe(path, Clock()) and slices > 2
    assert found(path) & gone == set() and is_whole(writer, live)


async def test_wipes_of_one_file_take_turns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "WIPE_PAGES", 16)
    writer = made(path)
    live, gone = live_and_die(writer)
    assert await asyncio.gather(*(wipe(path, Clock()) for _ in range(3))) == [True] * 3
    assert found(path) & gone == set() and is_whole(writer, live)


async def test_no_node_empties_the_log_between_two_slices(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for the reader of the wipe with the write lock in its hands, and sends would wait for it."""
    monkeypatch.setattr(bounds, "ERASED_S", 0.0)
    tried: list[apsw.Connection] = []
    writer = made(path)
    live_and_die(writer)
    checkpoints = Checkpoints(path, Gate(path, Clock()), Clock())
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "truncate_log", tried.append)

        def upkeep(_: _Wipe) -> None:
            checkpoints.erased()
            assert checkpoints.run(writer) is not None, "it is tried again"

        after_each_slice(patched, upkeep)
        assert await wipe(path, Clock()) and tried == []
    checkpoints.finish(writer)
    assert checkpoints.run(writer) is None, "nothing is due"


async def test_a_wipe_waits_for_nobody_who_reads_for_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "EMPTY_S", 0.01)
    writer, reader = made(path), connect(path, is_reader=True)
    reader.execute("BEGIN; SELECT count(*) FROM texts").fetchall()
    live, gone = live_and_die(writer)
    assert not await wipe(path, Clock())
    assert is_whole(writer, live)
    reader.execute("COMMIT")
    assert await wipe(path, Clock()) and found(path) & gone == set()


async def test_a_file_whose_pages_cannot_be_told_apart_is_not_touched(path: Path) -> None:
    first = apsw.Connection(str(path))
    first.execute("PRAGMA auto_vacuum=FULL; CREATE TABLE one (key)")
    first.close()
    live, _ = live_and_die(writer := made(path))
    with pytest.raises(Unavailable, match="auto_vacuum"):
        await wipe(path, Clock())
    assert is_whole(writer, live)


async def test_a_file_with_a_page_whose_number_begins_like_a_page_of_a_tree_is_not_touched(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, gone = live_and_die(writer := made(path))
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    pages = int(writer.pragma("page_count"))
    monkeypatch.setattr(wiping, "_PAGES_MAX", pages)
    with pytest.raises(Unavailable, match="128 GiB"):
        await wipe(path, Clock())
    monkeypatch.setattr(wiping, "_PAGES_MAX", pages + 1)
    assert await wipe(path, Clock()) and found(path) & gone == set() and is_whole(writer, live)


def test_only_the_space_between_cells_and_their_list_is_unused() -> None:
    leaf = bytearray(b"\xff" * 64)
    leaf[0], leaf[3:7] = 13, struct.pack(">HH", 2, 40)
    inner = bytearray(leaf)
    inner[0] = 5
    no_tree = bytearray(b"\x00" + b"\xff" * 63)
    full = bytearray(leaf)
    full[5:7] = struct.pack(">H", 12)
    raw = bytes(leaf + inner + no_tree + full)
    assert list(unused(raw, 64)) == [(12, 40), (64 + 16, 64 + 40)]
    leaf[12:40] = bytes(28)
    assert list(unused(bytes(leaf), 64)) == []


async def test_processes_write_and_wipe_and_are_killed_and_the_file_stays_whole(path: Path) -> None:
    """Three processes write. Two wipe all the time, and one of these is killed in the middle again and again."""
    made(path).close()
    outputs = [path.with_name(f"writer-{n}") for n in range(3)]
    with ExitStack() as running:
        for n, output in enumerate(outputs):
            running.enter_context(started(_WRITER, output, path, n))
        running.enter_context(started(_WIPER, path.with_name("steady"), path))
        for n in range(6):
            with started(_WIPER, said := path.with_name(f"wiper-{n}"), path):
                while said.stat().st_size == 0:
                    await asyncio.sleep(0.01)
    told = [line.split(" ") for output in outputs for line in output.read_text().splitlines(keepends=True)]
    whole = [(words[0], words[1].strip()) for words in told if len(words) == 2 and words[1].endswith("\n")]
    acked, gone = {key for key, _ in whole}, {key for _, key in whole if key}
    writer = connect(path)
    stored = {str(key) for (key,) in writer.execute("SELECT key FROM texts")}
    assert gone and stored & gone == set()
    assert len(acked - gone - stored) <= len(outputs), "each kill may hide one delete that was committed"
    while not await wipe(path, Clock()):
        await asyncio.sleep(0.01)  # the gate of a wipe that was killed stays closed for a second
    assert found(path) & gone == set() and is_whole(writer, stored)


@contextmanager
def started(program: str, output: Path, *arguments: object) -> Iterator[None]:
    """A process that runs until it is killed."""
    with output.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], stdout=file)
    try:
        yield
        assert process.poll() is None, "it ended by itself"
    finally:
        process.kill()
        process.wait(60)


async def test_a_wipe_that_is_cancelled_ends_after_its_slice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "WIPE_PAGES", 1)
    writer = made(path)
    live, gone = live_and_die(writer)
    wiping = asyncio.ensure_future(wipe(path, Clock()))
    await asyncio.sleep(0)
    wiping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wiping
    assert await wipe(path, Clock()) and found(path) & gone == set()
    assert is_whole(writer, live)
