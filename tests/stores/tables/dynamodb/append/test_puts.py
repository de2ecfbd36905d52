"""Puts of records as parts of a transaction."""

from __future__ import annotations

import pytest

from tidings.stores.tables.dynamodb.append.puts import put_op, record_key
from tidings.stores.tables.records import Put


@pytest.mark.parametrize(
    ("expected", "value", "verb", "condition"),
    [
        (None, b"{}", "Update", None),
        (0, b"{}", "Update", "attribute_not_exists(#place)"),
        (3, b"{}", "Update", "#version = :expected"),
        (3, None, "Delete", "#version = :expected"),
        (0, None, "ConditionCheck", "attribute_not_exists(#place)"),
    ],
)
def test_a_put_is_written_on_the_condition_that_the_version_is_the_one_that_was_seen(
    expected: int | None, value: bytes | None, verb: str, condition: str | None
) -> None:
    op = put_op(Put("u:a", "drafts", "c1", value, expected))
    assert (op.verb, op.body.get("ConditionExpression")) == (verb, condition)
    assert op.key == record_key("u:a", "drafts", "c1")


def test_only_a_record_with_a_time_is_in_the_index_by_time() -> None:
    assert "REMOVE #due_ms, #due_in" in put_op(Put("u:a", "jobs", "1", b"{}")).body["UpdateExpression"]
    assert "#due_in = :due_in" in put_op(Put("u:a", "jobs", "1", b"{}", due_ms=5)).body["UpdateExpression"]
