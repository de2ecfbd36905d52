"""A blocked person's words are refused, uncounted, unnotified and hidden, on every node, and they do not learn why."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, down
from tests.support.messaging.two_nodes import connect, telling
from tests.support.waiting import eventually
from tidings.bounds import BLOCKS_PER_USER_MAX
from tidings.errors import BadRequest, Forbidden, TooLarge, Unavailable
from tidings.messaging.people import blocks as module
from tidings.messaging.unread.rebuild import HOLD_MS
from tidings.model import ContentPatch
from tidings.pushes import Blocked, MessageNew


async def test_a_blocked_person_s_direct_message_is_forbidden(a: FaultyNode, direct: str) -> None:
    await a.send("bob", direct, "before")
    await a.core.blocks.block("alice", "bob")
    assert await a.code("bob", direct, "after") == "forbidden"
    assert await a.code("alice", direct, "mine") == "stored"
    await a.core.blocks.unblock("alice", "bob")
    assert await a.code("bob", direct, "again") == "stored"
    assert [entry.message_id for entry in await a.log(direct)] == ["before", "mine", "again"]


async def test_a_blocked_person_changes_nothing_that_was_said_but_may_delete_it(a: FaultyNode, direct: str) -> None:
    await a.send("bob", direct, "m1", "harmless")
    await a.core.blocks.block("alice", "bob")
    with pytest.raises(Forbidden):
        await a.core.rewrites.edit("bob", direct, 1, ContentPatch("harmful"))
    await a.core.rewrites.delete("bob", direct, 1)
    assert (await a.log(direct))[0].is_deleted


async def test_the_refusal_says_no_more_than_that_of_a_person_who_takes_no_messages(a: FaultyNode, direct: str) -> None:
    await a.core.blocks.block("alice", "bob")
    with pytest.raises(Forbidden) as refused:
        await a.send("bob", direct, "m1")
    assert "block" not in str(refused.value)
    view, _ = await a.core.directory.create("bob", kind="direct", members=["alice"])
    assert view.head.conversation_id == direct, "the conversation is there as before"


async def test_in_a_group_it_is_stored_hidden_and_never_counted(a: FaultyNode, group: str) -> None:
    alice, carol = await connect(a, "alice"), await connect(a, "carol")
    await a.send("bob", group, "before")
    await a.core.blocks.block("alice", "bob")
    await a.send("bob", group, "after")
    await a.send("carol", group, "other")
    assert (await a.unread("alice"), await a.unread("carol")) == (1, 2)
    assert await a.wrong() == []
    seen = [(e.entry.message_id, e.is_hidden) for e in alice.events if isinstance(e, MessageNew)]
    assert seen == [("before", False), ("after", True), ("other", False)]
    assert not any(e.is_hidden for e in carol.events if isinstance(e, MessageNew))
    page = await a.core.history.page("alice", group)
    assert [entry.sender_id in page.blocked for entry in page.entries] == [False, True, True]


async def test_a_block_and_its_end_are_a_recount_of_one_user(a: FaultyNode, group: str) -> None:
    for n in range(3):
        await a.send("bob", group, f"m{n}")
    assert await a.unread("alice") == 3
    await a.core.blocks.block("alice", "bob")
    assert (await a.unread("alice"), await a.unread("carol")) == (0, 3)
    assert (await a.core.unread.state("alice", group)).first_unread_seq is None
    await a.core.blocks.unblock("alice", "bob")
    assert await a.unread("alice") == 3
    assert await a.wrong() == []


async def test_another_node_learns_of_it_and_what_it_counted_before_is_counted_again(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    async with telling(a, b):
        await b.send("bob", group, "m1")  # b knows that nobody has blocked bob
        await a.core.blocks.block("alice", "bob")
        assert await a.unread("alice") == 0
        await b.send("bob", group, "m2")  # b has not heard of it yet
        assert await a.unread("alice") == 1
        await b.core.blocks.refresh()
        await b.send("bob", group, "m3")
        mark = a.core.keys.mark("alice")
        notes = (await a.command("HGET", mark, ":put")).decode().split()
        assert len(notes) == 1, "the note that makes her cold once every node knows"
        until_ms, _, rest = notes[0].partition(":")
        await a.command("HSET", mark, ":put", f"{int(until_ms) - HOLD_MS - 1}:{rest}")  # its time is over
        assert await a.unread("alice") == 0
        assert await a.wrong() == []


async def test_a_connection_on_another_node_gets_it_hidden(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await a.core.blocks.block("alice", "bob")
    async with telling(a, b):
        alice = await connect(b, "alice")
        await a.send("bob", group, "m1")
        await eventually(lambda: any(isinstance(event, MessageNew) for event in alice.events))
        assert [event.is_hidden for event in alice.events if isinstance(event, MessageNew)] == [True]


async def test_one_s_own_devices_are_told(a: FaultyNode) -> None:
    alice, bob = await connect(a, "alice"), await connect(a, "bob")
    await a.core.blocks.block("alice", "bob")
    await a.core.blocks.unblock("alice", "bob")
    assert alice.events == [Blocked("bob", True), Blocked("bob", False)] and bob.events == []


async def test_a_keyspace_that_does_not_answer_leaves_nothing_half_done(a: FaultyNode, direct: str) -> None:
    a.keyspace.fail("ZADD", down)
    with pytest.raises(Unavailable):
        await a.core.blocks.block("alice", "bob")
    assert await a.core.blocks.all("alice") == [] and await a.code("bob", direct, "m1") == "stored"


async def test_while_changes_cannot_be_read_nothing_is_remembered(a: FaultyNode) -> None:
    await a.core.blocks.load(["bob"])
    a.keyspace.fail("ZRANGE", down)
    with pytest.raises(Unavailable):
        await a.core.blocks.refresh()
    assert not a.core.blocks.is_known(["bob"])


async def test_nobody_blocks_themselves_or_everybody(a: FaultyNode, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadRequest):
        await a.core.blocks.block("alice", "alice")
    assert BLOCKS_PER_USER_MAX > 100
    monkeypatch.setattr(module, "BLOCKS_PER_USER_MAX", 1)
    await a.core.blocks.block("alice", "bob")
    with pytest.raises(TooLarge):
        await a.core.blocks.block("alice", "carol")
