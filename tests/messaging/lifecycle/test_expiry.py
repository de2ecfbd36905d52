"""Messages with an end: deleted once, by whichever node, and counted nowhere."""

from __future__ import annotations

import asyncio

from tests.support.messaging.faulty_stores import FaultyNode, answer_lost, told
from tidings.messaging.lifecycle.expiry import EXPIRING, expiring
from tidings.model import Content, ContentPatch, Sent


async def send(node: FaultyNode, conversation_id: str, message_id: str, ttl_s: int = 60) -> Sent:
    content = Content("for a minute", ttl_s=ttl_s)
    companion = expiring(content, conversation_id, "alice", message_id)
    return await node.core.sends.send("alice", conversation_id, message_id, content, companion=companion)


async def test_a_message_whose_time_is_over_becomes_one_delete_and_counts_nowhere(a: FaultyNode, direct: str) -> None:
    sent = await send(a, direct, "m1")
    assert sent.entry.expires_ms == sent.entry.sent_ms + 60_000
    await a.core.timed.step()
    assert await a.unread("bob") == 1  # its time is not over
    a.clock.ahead_ms = 61_000
    await a.core.timed.step()
    await a.core.timed.step()
    target, delete = await a.log(direct)
    assert (target.is_deleted, target.content, delete.kind, delete.target_seq) == (True, None, "delete", 1)
    assert await a.unread("bob") == 0
    assert await a.wrong() == []
    assert await a.tables.records.due(EXPIRING, until_ms=1 << 53, limit=10) == []
    assert a.core.metrics.expired.value == 1


async def test_two_nodes_that_find_the_same_end_delete_once(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await send(a, direct, "m1")
    (record,) = await a.tables.records.due(EXPIRING, until_ms=1 << 53, limit=10)
    works = [node.core.timed._works[EXPIRING](record) for node in (a, b)]
    await asyncio.gather(*works)
    assert [entry.kind for entry in await a.log(direct)].count("delete") == 1


async def test_an_end_outlives_the_answer_that_a_store_lost(a: FaultyNode, direct: str) -> None:
    await send(a, direct, "m1")
    a.clock.ahead_ms = 61_000
    a.faulty_log.faults.append(answer_lost)
    await a.core.timed.step()
    a.clock.ahead_ms = 70_000
    await a.core.timed.step()
    assert [kind for _, kind, _ in told(await a.log(direct))].count("delete") == 1


async def test_a_sender_who_left_is_no_reason_to_keep_the_message(a: FaultyNode, group: str) -> None:
    content = Content("soon gone", ttl_s=60)
    companion = expiring(content, group, "bob", "m1")
    await a.core.sends.send("bob", group, "m1", content, companion=companion)
    await a.core.directory.remove("bob", group, "bob")
    a.clock.ahead_ms = 61_000
    await a.core.timed.step()
    assert (await a.log(group))[0].is_deleted


async def test_an_edit_does_not_move_the_end(a: FaultyNode, direct: str) -> None:
    await send(a, direct, "m1")
    edit = await a.core.rewrites.edit("alice", direct, 1, ContentPatch("other words"))
    assert edit.entry.expires_ms is None
    a.clock.ahead_ms = 61_000
    await a.core.timed.step()
    assert all(entry.content is None for entry in await a.log(direct))


async def test_a_message_that_its_author_deleted_leaves_no_record_behind(a: FaultyNode, direct: str) -> None:
    await send(a, direct, "m1")
    await a.core.rewrites.delete("alice", direct, 1)
    a.clock.ahead_ms = 61_000
    await a.core.timed.step()
    assert [entry.kind for entry in await a.log(direct)] == ["message", "delete"]
    assert await a.tables.records.due(EXPIRING, until_ms=1 << 53, limit=10) == []


async def test_from_its_time_on_no_reader_sees_the_text_though_the_delete_is_not_stored(
    a: FaultyNode, direct: str
) -> None:
    await send(a, direct, "m1")
    await a.core.rewrites.edit("alice", direct, 1, ContentPatch("another text"))
    before = (await a.core.history.page("bob", direct)).entries
    assert [entry.text for entry in before] == ["another text", "another text"]
    a.clock.ahead_ms = 61_000
    edit, message = (await a.core.history.page("bob", direct)).entries
    assert (message.text, message.is_deleted, edit.text) == (None, True, None)
    for seq_no in (1, 2):
        assert (await a.core.history.entry("bob", direct, seq_no)).text is None
    assert [entry.kind for entry in await a.log(direct)] == ["message", "edit"], "nothing is stored for it"
