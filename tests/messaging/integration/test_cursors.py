"""A cursor: one node at a time, exactly the same entries again, and set back by an operator."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import Conflict
from tidings.messaging.integration.cursors import Cursor, Cursors
from tidings.model import Content, Head


def cursors_of(node: FaultyNode) -> Cursors:
    return Cursors(node.core.tables.records, node.core.tables.log, node.clock)


async def head_of(node: FaultyNode, conversation_id: str) -> Head:
    return (await node.core.tables.conversations.heads([conversation_id]))[conversation_id]


async def test_a_webhook_begins_after_what_was_there(a: FaultyNode, group: str) -> None:
    await a.core.sends.send("alice", group, None, Content("before"))
    hooks, cursors = a.core.integration.hooks, cursors_of(a)
    a.clock.ahead_ms += 10
    late = await hooks.create("https://example.org/")
    early = await hooks.create("https://example.org/", is_from_start=True)
    head = await head_of(a, group)
    assert (await cursors.read(late, head)).cursor.acked_seq == head.head == 1
    assert (await cursors.read(early, head)).cursor.acked_seq == 0


async def test_of_two_nodes_one_moves_the_cursor(a: FaultyNode, group: str) -> None:
    hook = await a.core.integration.hooks.create("https://example.org/")
    head, cursors = await head_of(a, group), cursors_of(a)
    one, other = await cursors.read(hook, head), await cursors.read(hook, head)
    moved = await cursors.put(hook, group, one, Cursor(acked_seq=3))
    with pytest.raises(Conflict):
        await cursors.put(hook, group, other, Cursor(acked_seq=2))
    assert await cursors.read(hook, head) == moved


async def test_a_replay_ends_a_pause_and_counts_itself(a: FaultyNode, group: str) -> None:
    for _ in range(3):
        await a.core.sends.send("alice", group, None, Content("hi"))
    hook = await a.core.integration.hooks.create("https://example.org/", is_from_start=True)
    head, cursors = await head_of(a, group), cursors_of(a)
    held = await cursors.read(hook, head)
    await cursors.put(hook, group, held, Cursor(acked_seq=2, sending_to=3, paused="422"))
    assert [(one[0], one[1]) for one in await cursors.paused(10)] == [(hook.webhook_id, group)]
    await cursors.set_back(hook, head, 2)
    assert (await cursors.read(hook, head)).cursor == Cursor(acked_seq=1, replays=1)
    assert await cursors.paused(10) == []
