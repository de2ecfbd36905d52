"""Walks: a log ends at the head that was seen, and records come in the order of their names."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.messaging.transfer.walk import entries_of, files_of, records_of
from tidings.model import Content, Entry, File
from tidings.stores.tables.records import Put


async def test_the_log_is_read_up_to_the_head_that_was_seen(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "one")
    head = (await a.tables.conversations.heads([group]))[group]
    await a.send("alice", group, "m2", "two")
    assert [entry.text async for entry in entries_of(a.tables.log, head)] == ["one"]


async def test_records_come_page_after_page(a: FaultyNode) -> None:
    names = [f"n{at:03d}" for at in range(150)]
    for start in (100, 0, 50):
        await a.tables.records.put([Put("u:ann", "things", name, b"1") for name in names[start : start + 50]])
    assert [record.name async for record in records_of(a.tables.records, "u:ann", "things")] == names


def test_only_a_message_has_files() -> None:
    content = Content("x", files=(File("f1"),))
    assert files_of(Entry("c", 1, "message", 1, content=content)) == [("c", "f1")]
    assert files_of(Entry("c", 2, "edit", 1, content=content, target_seq=1)) == []
    assert files_of(Entry("c", 1, "message", 1, is_deleted=True)) == []
