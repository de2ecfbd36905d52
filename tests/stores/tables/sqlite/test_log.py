"""What the contract of Messages cannot see: the two ways to store a group, and that every read goes by a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts import START_MS, group, message, void
from tests.contracts.messages import HeadsContract, MessagesContract, ReadsContract, RewritesContract
from tidings.clock import Clock
from tidings.model import Content, Head
from tidings.stores.tables.sqlite import accounts, conversations, devices, inboxes, statuses
from tidings.stores.tables.sqlite import log as sqlite_log
from tidings.stores.tables.sqlite.file import file as sqlite_file
from tidings.stores.tables.sqlite.file.engine import Transaction
from tidings.stores.tables.values import Refused, Rewrite, Stored


class TestMessages(MessagesContract): ...


class TestHeads(HeadsContract): ...


class TestRewrites(RewritesContract): ...


class TestReads(ReadsContract): ...


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Transaction]:
    path = tmp_path / "tidings.db"
    sqlite_file.prepare(path, Clock())
    made = Transaction(sqlite_file.connect(path))
    for c in ("a", "b", "c"):
        conversations._create(Head(conversation_id=c, kind="group", created_ms=START_MS), [], [], made)
    made.take_tally()
    yield made
    made.connection.close()


@pytest.fixture
def statements(tx: Transaction) -> list[str]:
    """The first word of each statement that runs."""
    seen: list[str] = []

    def note(cursor: Any, sql: str, bindings: Any) -> bool:
        seen.append(sql.split()[0])
        return True

    tx.connection.exec_trace = note
    return seen


def dump(tx: Transaction) -> list[Any]:
    return tx.execute("SELECT * FROM messages").fetchall() + tx.execute("SELECT * FROM conversation_heads").fetchall()


def test_new_messages_cost_two_statements_however_many_conversations(tx: Transaction, statements: list[str]) -> None:
    assert sqlite_log.append([group(message(c, 1)) for c in "abc"], tx) == [None] * 3
    assert statements == ["INSERT", "UPDATE"]


def test_a_conflict_late_in_a_large_append_takes_back_what_was_stored_before_it(tx: Transaction) -> None:
    sqlite_log.append([group(message("c", 90))], tx)
    before = dump(tx)
    rows = [message("c", seq_no, message_id=f"new{seq_no}") for seq_no in range(11, 91)]
    assert not sqlite_log._store_plain(tx, [group(*rows)])
    assert dump(tx) == before
    assert tx.writes == {"messages": 1, "conversation_heads": 1}


def test_a_conversation_that_is_gone_leaves_its_neighbours_stored_once(tx: Transaction) -> None:
    groups = [group(message("a", 1), message("a", 2)), group(message("nowhere", 1)), group(message("b", 1))]
    verdicts = sqlite_log.append(groups, tx)
    assert [verdict is None for verdict in verdicts] == [True, False, True]
    found = tx.execute("SELECT conversation_id, seq_no FROM messages").fetchall()
    assert found == [("a", 1), ("a", 2), ("b", 1)]
    assert tx.writes["messages"] == 3


def test_plain_and_careful_groups_of_one_append_are_answered_in_order(tx: Transaction) -> None:
    sqlite_log.append([group(message("b", 1))], tx)
    verdicts = sqlite_log.append(
        [group(message("a", 1)), group(void("b", 1), void("b", 2)), group(message("c", 1)), group(void("nowhere", 1))],
        tx,
    )
    assert verdicts == [None, Stored(frozenset({0})), None, Refused({}, frozenset(), is_gone=True)]


def test_a_rewrite_brings_an_archived_row_back(tx: Transaction) -> None:
    sqlite_log.append([group(message("a", 1, s3_ref="segment"))], tx)
    target = sqlite_log._page("a", 0, 9, 9, False, tx)[0]
    assert target.s3_ref == "segment"
    rewrite = Rewrite(
        target_seq=1,
        expected_rev=0,
        content=Content("new"),
        is_deleted=False,
        edited_ms=START_MS,
        edit_seq=2,
        wipe_seq=None,
    )
    assert sqlite_log.append([group(void("a", 2), rewrites=(rewrite,))], tx) == [None]
    row = sqlite_log._page("a", 0, 9, 9, False, tx)[0]
    assert (row.s3_ref, row.rev, row.text) == (None, 1, "new")


@pytest.mark.parametrize("module", [sqlite_log, conversations, inboxes, statuses, accounts, devices])
def test_no_statement_scans_a_table(tx: Transaction, module: Any) -> None:
    texts = [sql for name, sql in vars(module).items() if name.isupper() and isinstance(sql, str) and "?" in sql]
    bulks = [bulk._texts[2] for bulk in vars(module).values() if hasattr(bulk, "_texts")]
    assert len(texts) + len(bulks) > 4
    for sql in texts + bulks:
        count = 4 if "?4" in sql else 3 if "?3" in sql else 2 if "?2" in sql else 1 if "?1" in sql else sql.count("?")
        plan = [str(row[3]) for row in tx.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * count).fetchall()]
        scans = [line for line in plan if line.startswith("SCAN") and "VALUES" not in line]
        assert all(line.split()[1] in ("named", "found") for line in scans), (sql, plan)


def test_seq_at_reads_few_rows_of_a_long_log(tx: Transaction) -> None:
    for start in range(1, 4001, 40):
        sqlite_log.append([group(*(message("a", seq_no) for seq_no in range(start, start + 40)))], tx)
    tx.take_tally()
    assert sqlite_log._seq_at("a", START_MS + 1234, tx) == 1234
    assert tx.reads["messages"] <= 14
