"""What the contracts cannot see of the rows: how a long conversation goes, and that many rows are few statements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts import START_MS, group, message
from tidings import bounds
from tidings.clock import Clock
from tidings.model import Head, Member, Row
from tidings.stores import sqlite_file, sqlite_log, sqlite_rows
from tidings.stores.ports import Touch
from tidings.stores.sqlite_engine import Hop


@pytest.fixture
def hop(tmp_path: Path) -> Iterator[Hop]:
    path = tmp_path / "tidings.db"
    sqlite_file.prepare(path, Clock())
    made = Hop(sqlite_file.connect(path))
    yield made
    made.connection.close()


def create(hop: Hop, user_ids: list[str]) -> None:
    sqlite_rows.create(
        Head(conversation_id="c", kind="group", created_ms=START_MS),
        [Member(conversation_id="c", user_id=user_id) for user_id in user_ids],
        [Row(user_id=user_id, conversation_id="c", kind="group") for user_id in user_ids],
        hop,
    )


def test_while_a_long_log_is_deleted_the_floor_covers_what_is_gone(hop: Hop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SQLITE_DELETE_CHUNK", 10)
    create(hop, ["alice"])
    sqlite_log.append([group(*(message("c", seq_no) for seq_no in range(1, 26)))], hop)
    steps = []
    while not sqlite_rows.delete_some("c", hop):
        floor_seq = sqlite_rows.heads(["c"], hop)["c"].floor_seq
        left = [entry.seq_no for entry in sqlite_log.page("c", 0, 99, 99, False, hop)]
        assert left == list(range(floor_seq + 1, 26))
        steps.append(floor_seq)
    assert steps == [11, 22]
    assert sqlite_rows.heads(["c"], hop) == {}
    assert sqlite_log.page("c", 0, 99, 99, False, hop) == []


def test_a_thousand_touches_are_few_statements(hop: Hop) -> None:
    user_ids = [f"user{number}" for number in range(1000)]
    create(hop, user_ids)
    seen: list[str] = []

    def note(cursor: Any, sql: str, bindings: Any) -> bool:
        seen.append(sql)
        return True

    hop.connection.exec_trace = note
    hop.take_tally()
    touches = [Touch(user_id=user_id, conversation_id="c", last_seq=1, last_ms=2, preview="p") for user_id in user_ids]
    sqlite_rows.touch(touches, hop)
    assert hop.writes == {"conversations": 1000}
    assert len(seen) < 20


def test_a_name_given_twice_is_read_once(hop: Hop) -> None:
    create(hop, ["alice"])
    hop.take_tally()
    sqlite_rows.rows("alice", ["c", "c", "nowhere"], hop)
    sqlite_rows.heads(["c", "c"], hop)
    assert hop.reads == {"conversations": 1, "conversation_heads": 1}
