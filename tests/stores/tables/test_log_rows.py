"""Rows of the log in SQL: an entry comes back from its row as it was, with a value in every field and with few."""

from __future__ import annotations

import pytest

from tidings.model import Content, Entry, MemberChange
from tidings.stores.tables.log_rows import COLUMNS, entry_of, values_of

FULL = Entry(
    conversation_id="c1",
    seq_no=7,
    kind="message",
    sent_ms=1_000,
    message_id="m1",
    sender_id="ann",
    receiver_id="bob",
    content=Content("hello"),
    timestamp=990,
    digest=b"\x00\x01",
    target_seq=3,
    is_deleted=True,
    edited_ms=1_200,
    edit_seq=9,
    rev=2,
    s3_ref="segment",
    is_uncounted=True,
    thread_seq=5,
    mentions=("bob", "cem"),
)
CHANGE = Entry("c1", 8, "member", 1_000, sender_id="ann", member=MemberChange("added", ("cem",)))


@pytest.mark.parametrize("entry", [FULL, CHANGE, Entry("c1", 9, "void", 1_000)])
def test_an_entry_comes_back_from_its_row(entry: Entry) -> None:
    row = values_of(entry)
    assert len(row) == len(COLUMNS)
    assert entry_of(row) == entry


def test_sqlite_gives_numbers_for_flags() -> None:
    row = tuple(int(value) if isinstance(value, bool) else value for value in values_of(FULL))
    assert entry_of(row) == FULL
    assert entry_of(row).is_deleted is True


def test_each_value_stands_at_the_place_of_its_column() -> None:
    named = dict(zip(COLUMNS, values_of(FULL), strict=True))
    plain = [name for name in COLUMNS if name not in ("mentions", "content")]
    assert {name: named[name] for name in plain} == {name: getattr(FULL, name) for name in plain}
