"""Conversations on SQLite beyond the contract: how a long log is deleted, and that many rows are few statements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts import START_MS, group, message
from tests.contracts.conversations import ConversationsContract
from tidings.clock import Clock
from tidings.model import Head, Member, Row
from tidings.stores.tables.sqlite import conversations, inboxes
from tidings.stores.tables.sqlite import log as sqlite_log
from tidings.stores.tables.sqlite.file import bounds
from tidings.stores.tables.sqlite.file import file as sqlite_file
from tidings.stores.tables.sqlite.file.engine import Transaction
from tidings.stores.tables.values import Touch


class TestConversations(ConversationsContract): ...


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Transaction]:
    path = tmp_path / "tidings.db"
    sqlite_file.prepare(path, Clock())
    made = Transaction(sqlite_file.connect(path))
    yield made
    made.connection.close()


def create(tx: Transaction, user_ids: list[str]) -> None:
    conversations._create(
        Head(conversation_id="c", kind="group", created_ms=START_MS),
        [Member(conversation_id="c", user_id=user_id) for user_id in user_ids],
        [Row(user_id=user_id, conversation_id="c", kind="group") for user_id in user_ids],
        tx,
    )


def test_while_a_long_log_is_deleted_the_floor_covers_what_is_gone(
    tx: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "DELETE_CHUNK", 10)
    create(tx, ["alice"])
    sqlite_log.append([group(*(message("c", seq_no) for seq_no in range(1, 26)))], tx)
    steps = []
    while not conversations._delete_some("c", tx):
        floor_seq = conversations._heads(["c"], tx)["c"].floor_seq
        left = [entry.seq_no for entry in sqlite_log._page("c", 0, 99, 99, False, tx)]
        assert left == list(range(floor_seq + 1, 26))
        steps.append(floor_seq)
    assert steps == [11, 22]
    assert conversations._heads(["c"], tx) == {}
    assert sqlite_log._page("c", 0, 99, 99, False, tx) == []


def test_a_thousand_touches_are_few_statements(tx: Transaction) -> None:
    user_ids = [f"user{number}" for number in range(1000)]
    create(tx, user_ids)
    seen: list[str] = []

    def note(cursor: Any, sql: str, bindings: Any) -> bool:
        seen.append(sql)
        return True

    tx.connection.exec_trace = note
    tx.take_tally()
    touches = [Touch(user_id=user_id, conversation_id="c", last_seq=1, last_ms=2, preview="p") for user_id in user_ids]
    inboxes._touch(touches, tx)
    assert tx.writes == {"conversations": 1000}
    assert len(seen) < 20


def test_a_name_given_twice_is_read_once(tx: Transaction) -> None:
    create(tx, ["alice"])
    tx.take_tally()
    inboxes._rows("alice", ["c", "c", "nowhere"], tx)
    conversations._heads(["c", "c"], tx)
    assert tx.reads == {"conversations": 1, "conversation_heads": 1}
