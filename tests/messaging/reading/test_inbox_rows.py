"""Rows are written late and together, follow the head, and never bring back what was taken away."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, open_faulty
from tests.support.waiting import eventually
from tidings.bounds import ROW_WRITE_BIG_MEMBERS, ROW_WRITE_BIG_S, ROW_WRITE_S
from tidings.config.settings import Settings
from tidings.errors import Unavailable
from tidings.messaging.access import MemberList
from tidings.messaging.reading.inbox_rows import InboxRows
from tidings.model import ContentPatch, Row


def written(node: FaultyNode) -> int:
    return int(node.core.metrics.writes["conversations"].value)


async def row_of(node: FaultyNode, user_id: str, conversation_id: str) -> Row | None:
    return (await node.core.tables.inboxes.rows(user_id, [conversation_id])).get(conversation_id)


async def preview(node: FaultyNode, user_id: str, conversation_id: str) -> str | None:
    row = await row_of(node, user_id, conversation_id)
    assert row is not None
    return row.last_message_preview


def rows_of(node: FaultyNode) -> InboxRows:
    return node.core.sends._rows


async def test_many_messages_are_one_write_per_row_with_the_last_value(a: FaultyNode, group: str) -> None:
    before = written(a)
    await asyncio.gather(*(a.send("alice", group, f"m{i}", f"text {i}") for i in range(100)))
    assert written(a) == before
    await rows_of(a).flush()
    assert written(a) - before == 3
    last = (await a.log(group))[-1]
    for user_id, count in (("alice", 0), ("bob", 100), ("carol", 100)):
        row = await row_of(a, user_id, group)
        assert row is not None
        assert (row.last_seq, row.last_message_ts, row.last_message_preview) == (100, last.sent_ms, last.text)
        assert row.unread_count == count


async def test_rows_are_written_when_their_time_has_come(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "hello")
    assert await preview(a, "bob", direct) is None
    a.clock.elapsed_s += ROW_WRITE_S
    await eventually(lambda: written(a) >= 4)  # two when the conversation was made
    assert await preview(a, "bob", direct) == "hello"


async def test_rows_of_a_big_conversation_wait_longer(a: FaultyNode) -> None:
    members = [f"u{number}" for number in range(ROW_WRITE_BIG_MEMBERS)]
    view, _ = await a.core.directory.create("alice", kind="channel", members=members)
    id_ = view.head.conversation_id
    small, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
    await a.send("alice", id_, "m1", "big")
    a.clock.elapsed_s += ROW_WRITE_S
    await a.send("alice", small.head.conversation_id, "m1", "small")
    a.clock.elapsed_s += ROW_WRITE_S
    before = written(a)
    await eventually(lambda: written(a) == before + 2)
    assert await preview(a, "bob", small.head.conversation_id) == "small"
    assert await preview(a, "u1", id_) is None
    a.clock.elapsed_s += ROW_WRITE_BIG_S
    await eventually(lambda: written(a) == before + 2 + len(members) + 1)
    assert await preview(a, "u1", id_) == "big"


async def test_the_text_of_a_deleted_last_message_leaves_every_row_at_once(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "secret")
    await rows_of(a).flush()
    assert await preview(a, "bob", group) == "secret"
    await a.core.rewrites.delete("alice", group, 1)
    for user_id in ("alice", "bob", "carol"):
        assert await preview(a, user_id, group) is None
        assert (await a.core.inbox.item(user_id, group)).row.last_message_preview is None


async def test_an_edited_last_message_is_shown_at_once(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "before")
    await a.core.rewrites.edit("alice", group, 1, ContentPatch("after"))
    assert await preview(a, "bob", group) == "after"


async def test_a_text_deleted_on_another_node_does_not_come_back_with_a_late_row(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1", "secret")  # its row waits on node a
    await b.core.rewrites.delete("alice", group, 1)
    await rows_of(a).flush()
    assert [await preview(a, user_id, group) for user_id in ("alice", "bob", "carol")] == [None, None, None]


async def test_a_text_deleted_while_the_rows_are_written_does_not_stay(
    a: FaultyNode, b: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a.send("alice", group, "m1", "secret")
    touch = a.core.tables.inboxes.touch

    async def delete_first(touches: object) -> None:
        monkeypatch.undo()
        await b.core.rewrites.delete("alice", group, 1)
        await touch(touches)  # type: ignore[arg-type]

    monkeypatch.setattr(rows_of(a)._tables.inboxes, "touch", delete_first, raising=False)
    await rows_of(a).flush()
    assert await preview(a, "bob", group) is None


async def test_a_conversation_that_goes_on_elsewhere_does_not_keep_the_rows_busy(
    a: FaultyNode, b: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a.send("alice", group, "m1", "here")
    touch, writes = a.core.tables.inboxes.touch, list[int]()

    async def go_on_first(touches: object) -> None:
        writes.append(len(writes))
        assert len(writes) < 5, "the rows are written for as long as somebody sends"
        await b.send("bob", group, f"b{len(writes)}", "there")
        await touch(touches)  # type: ignore[arg-type]

    monkeypatch.setattr(rows_of(a)._tables.inboxes, "touch", go_on_first, raising=False)
    await rows_of(a).flush()
    assert len(writes) == 1
    monkeypatch.undo()
    await rows_of(b).flush()
    assert await preview(a, "bob", group) == "there"


async def test_a_late_write_never_brings_back_the_row_of_someone_who_left(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    await b.core.directory.remove("alice", group, "bob")
    await rows_of(a).flush()
    assert await row_of(a, "bob", group) is None


async def test_who_joined_later_does_not_get_the_text_from_before(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "between us")
    await a.core.directory.add("alice", group, ["dave"])
    await rows_of(a).flush()
    await a.core.rewrites.edit("alice", group, 1, ContentPatch("still between us"))
    row = await row_of(a, "dave", group)
    assert row is not None and (row.last_message_preview, row.last_seq) == (None, 0)


async def test_a_member_added_to_a_channel_gets_its_last_text_and_not_a_deleted_one(
    a: FaultyNode, b: FaultyNode
) -> None:
    view, _ = await a.core.directory.create("alice", kind="channel", members=["bob"])
    id_ = view.head.conversation_id
    await a.send("alice", id_, "m1", "one")
    await b.core.access.load(id_)
    await a.send("alice", id_, "m2", "two")
    await b.core.directory.add("alice", id_, ["dave"])
    assert (await b.core.inbox.page("dave", limit=1, cursor=None)).items[0].row.last_message_preview == "two"
    await b.core.access.load(id_)
    await a.core.rewrites.delete("alice", id_, 2)
    await b.core.directory.add("alice", id_, ["erin"])
    assert (await b.core.inbox.page("erin", limit=1, cursor=None)).items[0].row.last_message_preview is None


async def test_a_write_that_fails_is_made_up_for_when_the_row_is_read(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a.send("alice", direct, "m1", "hello")

    async def refuse(touches: object) -> None:
        raise Unavailable("no, says the test")

    monkeypatch.setattr(rows_of(a)._tables.inboxes, "touch", refuse, raising=False)
    with pytest.raises(Unavailable):
        await rows_of(a).flush()
    monkeypatch.undo()
    (item,) = (await a.core.inbox.page("bob", limit=1, cursor=None)).items
    assert item.row.last_message_preview == "hello"


async def test_an_empty_flush_touches_nothing(a: FaultyNode) -> None:
    await rows_of(a).flush()
    assert written(a) == 0


async def test_an_older_note_does_not_replace_a_newer_one(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "one")
    await a.send("alice", group, "m2", "two")
    member_list = await a.core.access.load(group)
    assert isinstance(member_list, MemberList)
    rows_of(a).record(member_list, 1, {})
    await rows_of(a).flush()
    row = await row_of(a, "bob", group)
    assert row is not None and (row.last_seq, row.last_message_preview, row.unread_count) == (2, "two", 2)


async def test_who_left_and_came_back_is_not_shown_what_was_said_meanwhile(a: FaultyNode, group: str) -> None:
    stale = await a.core.access.load(group)
    assert stale is not None
    await a.core.directory.remove("alice", group, "bob")
    await a.send("alice", group, "m2", "without bob")
    await rows_of(a).flush()
    await a.core.directory.add("alice", group, ["bob"])
    rows_of(a).record(stale, 2, {})  # a node that is late with its rows
    await rows_of(a).flush()
    assert await preview(a, "bob", group) is None
    assert await preview(a, "carol", group) == "without bob"


async def test_the_count_of_a_row_is_exact_or_not_known_whatever_is_read_and_deleted(
    a: FaultyNode, direct: str
) -> None:
    async def counted() -> int | None:
        await rows_of(a).flush()
        return (await a.tables.inboxes.rows("bob", [direct]))[direct].unread_count

    for number in range(4):
        await a.send("alice", direct, f"m{number}")
    assert await counted() is None, "bob has not looked yet, so nobody has counted"
    await a.core.unread.totals("bob")
    await a.send("alice", direct, "m4")
    assert await counted() == 5
    await a.core.rewrites.delete("alice", direct, 2)
    assert await counted() == 4
    await a.send("alice", direct, "m5")  # written after the mark
    await a.core.unread.mark_read("bob", direct, up_to_seq=7)
    assert await counted() == 0
    await a.send("alice", direct, "m6")
    assert await counted() == 1
    await a.core.unread.mark_unread("bob", direct, from_seq=3)
    assert await counted() is None


# --- across the line: above three members a conversation is large ----------------------------------


@pytest.fixture
async def near(settings: Settings) -> AsyncIterator[FaultyNode]:
    async with open_faulty(dataclasses.replace(settings, members_large=3), "c") as node:
        yield node


async def cross(node: FaultyNode, conversation_id: str) -> None:
    await node.core.directory.add("alice", conversation_id, ["dave"], is_server=True)
    assert (await node.tables.conversations.heads([conversation_id]))[conversation_id].large_ms > 0


async def come_back(node: FaultyNode, conversation_id: str) -> None:
    for user_id in ("dave", "carol"):
        await node.core.directory.remove("alice", conversation_id, user_id)
    assert (await node.tables.conversations.heads([conversation_id]))[conversation_id].large_ms == 0


async def test_a_late_row_of_a_conversation_that_became_large_gets_no_text(near: FaultyNode, group: str) -> None:
    """Nobody would take the text out of it when the message is deleted."""
    small = await near.core.access.load(group)
    assert small is not None
    await cross(near, group)
    sent = await near.send("alice", group, "m1", "secret")
    rows_of(near).record(small, sent.entry.seq_no, {})  # a batch that began below the line
    await rows_of(near).flush()
    assert await preview(near, "bob", group) is None
    await near.core.rewrites.delete("alice", group, sent.entry.seq_no)
    await come_back(near, group)
    assert (await near.core.inbox.item("bob", group)).row.last_message_preview is None


async def test_a_text_that_is_written_while_its_conversation_becomes_large_is_taken_out_again(
    near: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await near.send("alice", group, "m1", "secret")
    touch = near.core.tables.inboxes.touch

    async def cross_first(touches: object) -> None:
        monkeypatch.undo()
        await cross(near, group)
        await touch(touches)  # type: ignore[arg-type]

    monkeypatch.setattr(rows_of(near)._tables.inboxes, "touch", cross_first, raising=False)
    await rows_of(near).flush()
    assert await preview(near, "bob", group) is None
    await near.core.rewrites.delete("alice", group, sent.entry.seq_no)
    await come_back(near, group)
    assert (await near.core.inbox.item("bob", group)).row.last_message_preview is None
