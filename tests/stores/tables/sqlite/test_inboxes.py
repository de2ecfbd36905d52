"""The contract of inbox rows on SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.inboxes import InboxesContract
from tidings.clock import Clock
from tidings.stores.tables.sqlite import conversations, inboxes
from tidings.stores.tables.sqlite.file import file as sqlite_file


class TestInboxes(InboxesContract): ...


@pytest.mark.parametrize(
    ("statement", "index"),
    [(inboxes._LATEST, "inbox_order"), (conversations._MEMBERS, "present")],
    ids=["inbox", "members"],
)
def test_a_page_of_an_inbox_and_the_members_are_read_by_their_index(path: Path, statement: str, index: str) -> None:
    """So a page costs the same however many rows the user has, and a member list whoever passed through."""
    sqlite_file.prepare(path, Clock())
    connection = sqlite_file.connect(path)
    bindings = ("alice", 1, "", 20)[: 4 if "?4" in statement else 1]
    plan = " ".join(str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings))
    assert index in plan and "TEMP B-TREE" not in plan, plan
