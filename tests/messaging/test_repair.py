"""Repair: what a node leaves undone is finished by another, or by itself, once."""

from __future__ import annotations

import asyncio

import pytest

from tests.messaging.faulty import (
    Device,
    FaultyNode,
    Gate,
    answer_lost,
    code_of,
    down,
    open_faulty,
    request_lost,
    told,
)
from tidings.bounds import NODE_LEASE_S
from tidings.config import Settings
from tidings.messaging.repair import Repair


async def bury(node: FaultyNode, by: FaultyNode) -> int:
    """The node's lease has run out; another finishes its work."""
    nodes = node.core.keys.nodes
    await by.command("ZADD", nodes, 1, node.core.settings.node.id)
    done = await by.core.repair.finish_dead()
    assert await by.command("ZSCORE", nodes, node.core.settings.node.id) is None
    return done


async def open_fields(node: FaultyNode, conversation_id: str) -> list[bytes]:
    fields = await node.command("HKEYS", node.core.keys.conv(conversation_id))
    return [field for field in fields if field.startswith(b"open:")]


async def opened(node: FaultyNode, node_id: str) -> set[bytes]:
    return set(await node.command("SMEMBERS", node.core.keys.open(node_id)))


# --- of our own batches ---------------------------------------------------------------------------


async def test_finished_work_is_taken_off_the_open_list(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    assert await opened(a, "a") == {direct.encode()}
    assert await open_fields(a, direct) == [b"open:a"]
    await a.core.repair.clear_finished(older_than_s=60)
    assert await opened(a, "a") == {direct.encode()}
    await a.core.repair.clear_finished()
    assert await opened(a, "a") == set() and await open_fields(a, direct) == []


async def test_work_under_way_stays_on_the_open_list(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    gate = Gate()
    a.tables.faults.append(gate)
    send = a.submit("alice", direct, "m2")
    await gate.reached.wait()
    await a.core.repair.finish_own()
    await a.core.repair.clear_finished()
    assert await opened(a, "a") == {direct.encode()}
    assert await a.command("HGET", a.core.keys.conv(direct), "open:a") == b"2-2"
    gate.opened.set()
    await send


async def test_what_was_stored_but_not_indexed_is_indexed_by_the_node_itself(a: FaultyNode, direct: str) -> None:
    a.keyspace.fail("inbox_index", request_lost)
    assert await a.code("alice", direct, "m1") == "unavailable"
    assert a.core.repair.open_from(direct) == 1
    await a.core.repair.finish_own()
    assert a.core.repair.open_from(direct) == 0
    assert await a.unread("bob") == 1 and await a.wrong() == []
    await a.core.repair.clear_finished()
    assert await opened(a, "a") == set()


async def test_only_what_is_undecided_is_indexed_again(a: FaultyNode, direct: str) -> None:
    for i in range(5):
        await a.send("alice", direct, f"m{i}")
    a.keyspace.fail("inbox_index", request_lost)
    assert await a.code("alice", direct, "m5") == "unavailable"
    assert a.core.repair.open_from(direct) == 6


async def test_an_undecided_number_stays_on_record_until_it_is_decided(a: FaultyNode, direct: str) -> None:
    a.tables.faults.append(down)
    assert await a.code("alice", direct, "m1") == "unavailable"
    await a.core.repair.finish_own()
    assert a.core.repair.open_from(direct) == 1, "the slot is open: its commit may still come"
    await a.send("bob", direct, "m2")
    assert await a.command("HGET", a.core.keys.conv(direct), "open:a") == b"1-2"
    a.clock.elapsed_s += 4
    await a.core.repair.finish_own()
    assert a.core.repair.open_from(direct) == 0
    assert told(await a.log(direct)) == [(1, "void", None), (2, "message", "m2")]
    assert (await a.send("alice", direct, "m1")).entry.seq_no == 3


async def test_a_batch_that_cannot_be_routed_is_answered_once_and_routed_later(a: FaultyNode, group: str) -> None:
    bob = Device("bob", "socket")
    a.core.hub.attach(bob)
    routed, route = 0, a.core.repair._deliver.route

    async def fails_once(*args: object) -> None:
        nonlocal routed
        routed += 1
        if routed == 1:
            await down(route)  # type: ignore[arg-type]
        await route(*args)  # type: ignore[arg-type]

    a.core.repair._deliver.route = fails_once  # type: ignore[assignment,method-assign]
    assert await a.code("alice", group, "m1") == "stored"
    await a.core.repair.finish_own()
    assert bob.seqs() == [1]
    assert await a.unread("bob") == 1


async def test_a_set_that_another_node_deleted_is_announced_again(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await bury(a, by=b)  # it was only slow
    await a.core.repair.finish_own()
    gate = Gate()
    a.tables.faults.append(gate)
    send = a.submit("alice", direct, "m2")
    await gate.reached.wait()
    assert await opened(b, "a") == {direct.encode()}
    gate.opened.set()
    assert code_of(await send) == "stored"


async def test_after_another_life_of_the_keyspace_everything_is_announced_again(a: FaultyNode, direct: str) -> None:
    lives = 0
    repair: Repair = a.core.repair
    repair.epoch_changes = lambda: lives
    await a.send("alice", direct, "m1")
    await a.command("DEL", a.core.keys.open("a"))  # lost with the tail
    lives = 1
    await a.send("alice", direct, "m2")
    assert await opened(a, "a") == {direct.encode()}


async def test_who_dies_right_after_the_keyspace_was_flushed_is_known_to_have_left_work(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.core.registry.renew_node()
    await a.send("alice", group, "m1")
    await a.command("FLUSHALL", "SYNC")
    a.keyspace.fail("inbox_index", request_lost)
    assert await a.code("alice", group, "m2") == "unavailable"
    a.clock.ahead_ms += int(NODE_LEASE_S * 1000) + 1
    b.clock.ahead_ms = a.clock.ahead_ms
    assert await b.core.repair.finish_dead() == 1, "it has not said again that it lives, and never will"
    assert await b.unread("bob") == 2 and await b.wrong() == []
    assert await open_fields(b, group) == []


async def test_a_node_that_comes_back_under_its_name_finishes_what_it_left(
    settings: Settings, b: FaultyNode, a: FaultyNode, direct: str
) -> None:
    a.keyspace.fail("inbox_index", request_lost)
    assert await a.code("alice", direct, "m1") == "unavailable"
    async with open_faulty(settings, "a") as again:
        await again.core.registry.renew_node()  # so nobody else takes it for dead
        assert await b.core.repair.finish_dead() == 0
        await again.core.repair.finish_own()
        assert await again.unread("bob") == 1 and await again.wrong() == []
        assert await opened(b, "a") == set() and await open_fields(b, direct) == []


# --- of nodes that died ---------------------------------------------------------------------------


async def test_a_message_that_a_dead_node_stored_is_counted_by_another(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    bob = Device("bob", "socket")
    b.core.hub.attach(bob)
    a.keyspace.fail("inbox_index", request_lost)
    assert await a.code("alice", group, "m1") == "unavailable"
    assert await b.unread("bob") == 0, "stored, and nobody sees it"
    assert await bury(a, by=b) == 1
    assert [await b.unread(user_id) for user_id in ("alice", "bob", "carol")] == [0, 1, 1]
    page = await b.core.inbox.page("bob", limit=20, cursor=None)
    assert [(item.row.conversation_id, item.row.last_seq) for item in page.items] == [(group, 1)]
    assert bob.seqs() == [1]
    assert await b.wrong() == []
    again = await b.send("alice", group, "m1")
    assert again.is_duplicate and again.entry.seq_no == 1
    assert bob.seqs() == [1] and await b.unread("bob") == 1
    assert await opened(b, "a") == set() and await open_fields(b, group) == []


async def test_finishing_the_work_of_a_dead_node_twice_changes_nothing(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    bob = Device("bob", "socket")
    b.core.hub.attach(bob)
    a.keyspace.fail("inbox_index", answer_lost)
    assert await a.code("alice", direct, "m1") == "unavailable"
    await bury(a, by=b)
    await b.command("HSET", b.core.keys.conv(direct), "open:a", "1-1")
    await b.command("SADD", b.core.keys.open("a"), direct)
    assert await bury(a, by=b) == 1
    assert await b.unread("bob") == 1 and bob.seqs() == [1] and await b.wrong() == []


async def test_a_number_that_a_dead_node_did_not_use_is_closed_at_once(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    await a.send("alice", direct, "m1")
    gate = Gate()
    a.tables.faults.append(gate)
    slow = a.submit("alice", direct, "m2")  # not dead, as it turns out, only slow
    await gate.reached.wait()
    await bury(a, by=b)
    assert told(await b.log(direct)) == [(1, "message", "m1"), (2, "void", None)]
    gate.opened.set()
    assert code_of(await slow) == "stored"
    assert told(await b.log(direct))[2:] == [(3, "message", "m2")]
    assert await b.unread("bob") == 2 and await b.wrong() == []


async def test_a_member_change_of_a_dead_node_is_finished(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await b.unread("dave")
    a.keyspace.fail("inbox_join", request_lost)
    with pytest.raises(Exception, match="store"):
        await a.core.directory.add("alice", group, ["dave"])
    await bury(a, by=b)
    page = await b.core.inbox.page("dave", limit=20, cursor=None)
    assert [item.row.conversation_id for item in page.items] == [group]
    await b.send("alice", group, "m2")
    assert await b.unread("dave") == 1 and await b.wrong() == []


async def test_a_deleted_text_does_not_stay_in_the_inbox_when_the_node_dies(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    await a.send("alice", direct, "m1", "secret")
    page = await b.core.inbox.page("bob", limit=20, cursor=None)  # repairs the row: it holds the text now
    assert page.items[0].row.last_message_preview == "secret"
    a.keyspace.fail("inbox_index", request_lost)
    with pytest.raises(Exception, match="store"):
        await a.core.rewrites.delete("alice", direct, 1)
    await bury(a, by=b)
    page = await b.core.inbox.page("bob", limit=20, cursor=None)
    assert page.items[0].row.last_message_preview is None
    assert await b.unread("bob") == 0


async def test_a_node_that_lives_is_left_alone(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await a.core.registry.renew_node()
    await b.core.registry.renew_node()
    await a.send("alice", direct, "m1")
    assert await b.core.repair.finish_dead() == 0
    assert await opened(b, "a") == {direct.encode()}


async def test_work_in_a_conversation_that_is_gone_is_finished(a: FaultyNode, b: FaultyNode, group: str) -> None:
    a.tables.faults.append(down)
    assert await a.code("alice", group, "m1") == "unavailable"
    await b.core.directory.delete("alice", group)
    assert await bury(a, by=b) == 1
    await a.core.repair.finish_own()
    a.clock.elapsed_s += 4
    await a.core.repair.finish_own()
    assert a.core.repair.open_from(group) == 0


async def test_many_conversations_of_a_dead_node_are_finished(a: FaultyNode, b: FaultyNode) -> None:
    ids = []
    for i in range(20):
        view, _ = await a.core.directory.create("alice", kind="direct", members=[f"bob{i}"])
        ids.append(view.head.conversation_id)
        await a.unread(f"bob{i}")
    a.keyspace.fail("inbox_index", *[request_lost] * 20)
    answers = await asyncio.gather(*(a.submit("alice", id_, "m1") for id_ in ids))
    assert {code_of(answer) for answer in answers} == {"unavailable"}
    assert await bury(a, by=b) == 20
    assert [await b.unread(f"bob{i}") for i in range(20)] == [1] * 20
    assert await b.wrong() == []
