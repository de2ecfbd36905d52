"""Turns at the write lock: a node that waits is heard by the node that commits all the time."""

from __future__ import annotations

import threading
from pathlib import Path

import apsw
import pytest

from tidings.clock import Clock
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file import file as sqlite_file
from tidings.stores.tables.sqlite.file.turns import Turns


@pytest.fixture(autouse=True)
def prepared(path: Path) -> None:
    sqlite_file.prepare(path, Clock())


def test_a_node_alone_leaves_nothing_beside_its_tables(path: Path) -> None:
    turns, connection = Turns(path, Clock()), sqlite_file.connect(path)
    turns.begin(connection)
    turns.give_way()
    assert connection.in_transaction and not path.with_name(path.name + "-waiting").exists()


def test_a_node_that_waits_gets_its_turn_from_one_that_never_stops(path: Path) -> None:
    """The other node holds the lock for longer than one wait, and makes its pause only when it finds the file."""
    busy, waiting = sqlite_file.connect(path), sqlite_file.connect(path, busy_s=0.001)
    busy.execute("BEGIN IMMEDIATE")
    turns, is_over = Turns(path, Clock()), threading.Event()

    def commit_all_the_time() -> None:
        while not is_over.is_set():
            if path.with_name(path.name + "-waiting").exists():
                busy.execute("COMMIT")
                is_over.wait()

    other = threading.Thread(target=commit_all_the_time)
    other.start()
    turns.begin(waiting)
    is_over.set()
    other.join()
    waiting.execute("COMMIT")
    turns.give_way()
    assert not path.with_name(path.name + "-waiting").exists()


def test_a_lock_that_is_never_given_back_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BUSY_S", 0.02)
    monkeypatch.setattr(bounds, "QUEUE_S", 0.005)
    holder, waiting = sqlite_file.connect(path), sqlite_file.connect(path, busy_s=0.001)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(apsw.BusyError):
        Turns(path, Clock()).begin(waiting)
