"""Rows of PostgreSQL: a value comes back from its row, whatever a user has written."""

from __future__ import annotations

from tidings.model import Head
from tidings.stores.tables.postgres.server.rows import Rows, to_bytes
from tidings.stores.tables.whole import HEADS, MEMBERS, MESSAGES

NUL = "before\0after"


def test_a_text_of_a_user_is_stored_as_bytes_and_comes_back() -> None:
    rows = Rows(HEADS)
    head = Head(conversation_id="c1", kind="group", created_ms=1, preview=NUL)
    row = rows.row_of(head)
    assert row[rows.columns.index("preview")] == to_bytes(NUL) == NUL.encode()
    assert rows.value_of(row) == head


def test_no_text_stays_no_text() -> None:
    rows, head = Rows(HEADS), Head(conversation_id="c1", kind="group", created_ms=1)
    assert rows.value_of(rows.row_of(head)) == head
    assert to_bytes(None) is None


def test_columns_have_the_types_of_their_fields() -> None:
    members = dict(zip(Rows(MEMBERS).columns, Rows(MEMBERS).types, strict=True))
    assert members["user_id"] == "text" and members["left_seq"] == "bigint" and members["is_requested"] == "boolean"
    messages = dict(zip(Rows(MESSAGES).columns, Rows(MESSAGES).types, strict=True))
    assert messages["content"] == messages["digest"] == "bytea" and messages["mentions"] == "text"
