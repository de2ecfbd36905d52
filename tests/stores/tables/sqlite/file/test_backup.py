"""A copy is whole, private, of one moment, and made while others write; restored tables have another epoch.

A file that is open here is used through the adapter's SQLite alone. Python's own is another copy of the library, and in
one process a file that one copy closes loses the locks of the other.
"""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.tables.sqlite.file.backup import back_up, renew_epoch
from tidings.stores.tables.sqlite.file.file import connect, prepare


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    path = tmp_path / "tidings.db"
    prepare(path, Clock())
    with sqlite3.connect(path) as writer:
        writer.execute("CREATE TABLE told (n INTEGER, twice INTEGER)")
    writer.close()
    return path


def told(path: Path) -> list[tuple[int, int]]:
    reader = sqlite3.connect(path)
    try:
        return reader.execute("SELECT n, twice FROM told ORDER BY n").fetchall()
    finally:
        reader.close()


def test_a_copy_has_what_is_only_in_the_log_so_far(tables: Path, tmp_path: Path) -> None:
    writer = connect(tables)  # open, so that nothing is carried over into the file
    writer.execute("PRAGMA wal_autocheckpoint=0")
    writer.execute("INSERT INTO told VALUES (1, 2)")
    copy = tmp_path / "copy.db"
    assert back_up(tables, copy) == copy.stat().st_size
    writer.close()
    assert told(copy) == [(1, 2)]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"], "one file, nothing beside it"


def test_a_copy_has_no_text_that_was_erased_and_left_a_free_page(tables: Path, tmp_path: Path) -> None:
    secret = "erased before files were cleaned"
    writer = sqlite3.connect(tables)
    writer.execute("PRAGMA secure_delete=OFF")
    writer.execute("CREATE TABLE long (text TEXT)")
    writer.execute("INSERT INTO long VALUES (?)", (secret * 1_000,))
    writer.commit()
    writer.execute("DELETE FROM long")
    writer.commit()
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    writer.close()
    assert secret.encode() in tables.read_bytes()
    back_up(tables, tmp_path / "copy.db")
    assert secret.encode() not in (tmp_path / "copy.db").read_bytes()


def test_a_copy_is_of_one_moment_however_busy_the_tables_are(tables: Path, tmp_path: Path) -> None:
    is_over = threading.Event()

    def write() -> None:
        writer = connect(tables, busy_s=60)
        n = 0
        while not is_over.is_set():
            n += 1
            with writer:
                writer.execute("INSERT INTO told VALUES (?, 0)", (n,))
                writer.execute("UPDATE told SET twice = 2 * n WHERE n = ?", (n,))
        writer.close()

    writing = threading.Thread(target=write, name="writer")
    writing.start()
    try:
        sizes = []
        for number in range(5):
            back_up(tables, tmp_path / f"copy{number}.db")
            rows = told(tmp_path / f"copy{number}.db")
            assert rows == [(n, 2 * n) for n in range(1, len(rows) + 1)]
            sizes.append(len(rows))
    finally:
        is_over.set()
        writing.join()
    assert sizes == sorted(sizes) and sizes[-1] <= len(told(tables))


def test_a_file_that_is_there_is_not_overwritten(tables: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_text("precious")
    with pytest.raises(FileExistsError):
        back_up(tables, copy)
    assert copy.read_text() == "precious"


def test_damage_is_noticed_and_gets_no_name(tables: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tables) as writer:
        writer.executemany("INSERT INTO told VALUES (?, ?)", [(n, 2 * n) for n in range(20_000)])
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    writer.close()
    with tables.open("r+b") as raw:
        raw.seek(tables.stat().st_size // 2)
        raw.write(b"\xff" * 8192)
    with pytest.raises(Unavailable, match=r"damaged|malformed"):
        back_up(tables, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_restored_tables_have_another_epoch_for_good(tables: Path) -> None:
    before = prepare(tables, Clock())
    epoch = renew_epoch(tables, Clock())
    assert epoch != before.store_epoch
    assert prepare(tables, Clock()) == before._replace(store_epoch=epoch)
