"""Summaries: every page shows them, and a conversation without any costs a page nothing."""

from __future__ import annotations

from typing import Any, cast

from tests.support.messaging.faulty_stores import FaultyNode, Recorded, down
from tests.support.messaging.two_nodes import connect
from tidings.model import Beside, Content, ReactionCount
from tidings.pushes import MessageNew

UP = "👍"


async def page(node: FaultyNode, user_id: str, id_: str, **place: Any) -> dict[int, Beside]:
    return dict((await node.core.history.page(user_id, id_, **place)).beside)


async def test_pages_and_resume_show_the_counts_and_what_is_mine(a: FaultyNode, group: str) -> None:
    for at in range(3):
        await a.send("alice", group, f"m{at}")
    await a.core.reactions.react("bob", group, 2, UP, is_on=True)
    mine, theirs = Beside({UP: ReactionCount(1, True)}, 4), Beside({UP: ReactionCount(1, False)}, 4)
    assert await page(a, "bob", group) == await page(a, "bob", group, after_seq=1) == {2: mine}
    assert await page(a, "carol", group, around_seq=2) == {2: theirs}
    assert await page(a, "carol", group, before_seq=2) == {}
    device = await connect(a, "carol")
    await a.core.resume.catch_up(device, {group: 1}, None)
    shown = {one.entry.seq_no: one.beside for one in device.events if isinstance(one, MessageNew)}
    assert shown == {2: theirs, 3: None, 4: None}


async def test_a_deleted_message_shows_nothing(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.core.reactions.react("bob", group, 1, UP, is_on=True)
    await a.core.rewrites.delete("alice", group, 1)
    assert await page(a, "bob", group) == {}


async def test_a_conversation_without_reactions_costs_its_pages_no_read(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    recorded = Recorded(a.tables.records)
    a.core.summaries.records = cast(Any, recorded)
    await page(a, "bob", group)  # the first page looks once, for summaries and threads, and it is remembered
    assert recorded.asked == ["page", "page"]
    for _ in range(3):
        await page(a, "bob", group)
    assert recorded.asked == ["page", "page"]
    await a.core.reactions.react("bob", group, 1, UP, is_on=True)
    recorded.asked.clear()
    assert 1 in await page(a, "carol", group)
    assert recorded.asked == ["page", "page"]  # of the summaries and of the threads


async def test_messages_from_anywhere_show_the_same_in_one_read(a: FaultyNode, group: str) -> None:
    other = (await a.core.directory.create("bob", kind="group", members=["alice"]))[0].head.conversation_id
    for id_ in (group, other):
        for at in range(3):
            await a.send("alice", id_, f"m{at}")
        await a.core.reactions.react("bob", id_, 1, UP, is_on=True)
        await a.core.sends.send("bob", id_, "r1", Content("x", thread_seq=3))
    entries = [entry for id_ in (group, other) for entry in await a.core.log.after(id_, 0, 100)]
    expected = {(id_, seq): one for id_ in (group, other) for seq, one in (await page(a, "bob", id_)).items()}
    assert len(expected) == 4
    recorded = Recorded(a.tables.records)
    a.core.summaries.records = cast(Any, recorded)
    assert await a.core.summaries.beside_each("bob", entries) == expected
    assert await a.core.summaries.beside_each("bob", []) == {}
    assert recorded.asked == ["get_each"]


async def test_another_node_and_a_lost_keyspace_miss_no_reaction(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    assert await page(b, "bob", group) == {}
    await a.core.reactions.react("bob", group, 1, UP, is_on=True)
    assert 1 in await page(b, "carol", group)
    await a.command("FLUSHALL", "SYNC")
    assert 1 in await page(b, "carol", group)
    await a.send("alice", group, "m2")
    assert 1 in await page(b, "carol", group)


async def test_pages_show_reactions_also_while_the_keyspace_is_down(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.core.reactions.react("bob", group, 1, UP, is_on=True)
    a.keyspace.fail("HMGET", down)
    assert 1 in await page(a, "carol", group)
