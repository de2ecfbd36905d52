"""Takeover: work that a node leaves undone is finished by another, or by itself, once."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import (
    After,
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
from tests.support.messaging.open_work import bury, open_fields, opened
from tests.support.messaging.two_nodes import connect, telling, unheard
from tests.support.waiting import eventually
from tidings.bounds import NODE_LEASE_S, REINDEX_S
from tidings.config.settings import Settings
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import plain


async def test_what_was_stored_but_not_indexed_is_indexed_by_the_node_itself(a: FaultyNode, direct: str) -> None:
    a.keyspace.fail("inbox_index", request_lost)
    assert await a.code("alice", direct, "m1") == "unavailable"
    assert a.core.open_work.open_from(direct) == 1
    await a.core.takeover.finish_own()
    assert a.core.open_work.open_from(direct) == 0
    assert await a.unread("bob") == 1 and await a.wrong() == []
    await a.core.open_work.clear_closed()
    assert await opened(a, "a") == set()


async def test_a_message_that_is_deleted_while_the_node_finishes_its_own_work_does_not_count(
    a: FaultyNode, direct: str
) -> None:
    await a.send("alice", direct, "m1")
    assert await a.unread("bob") == 1  # warm
    a.keyspace.fail("inbox_index", down)
    assert await a.code("alice", direct, "m2") == "unavailable"
    gate = After()
    a.faulty_log.page_faults.append(gate)
    finishing = asyncio.ensure_future(a.core.takeover.finish_own())
    await gate.reached.wait()  # it has read the message
    await a.core.rewrites.delete("alice", direct, 2)
    gate.opened.set()
    await finishing
    assert await a.unread("bob") == 1 and await a.wrong() == []


async def test_only_what_is_undecided_is_indexed_again(a: FaultyNode, direct: str) -> None:
    for i in range(5):
        await a.send("alice", direct, f"m{i}")
    a.keyspace.fail("inbox_index", request_lost)
    assert await a.code("alice", direct, "m5") == "unavailable"
    assert a.core.open_work.open_from(direct) == 6


async def test_a_batch_that_cannot_be_routed_is_answered_once_and_routed_later(a: FaultyNode, group: str) -> None:
    bob = Device("bob", "socket")
    a.core.hub.attach(bob)
    routed, route = 0, a.core.takeover.deliver.route

    async def fails_once(*args: object) -> None:
        nonlocal routed
        routed += 1
        if routed == 1:
            await down(route)  # type: ignore[arg-type]
        await route(*args)  # type: ignore[arg-type]

    a.core.takeover.deliver.route = fails_once  # type: ignore[assignment,method-assign]
    assert await a.code("alice", group, "m1") == "stored"
    await a.core.takeover.finish_own()
    assert bob.seqs() == [1]
    assert await a.unread("bob") == 1


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
    assert await b.core.takeover.finish_dead() == 1, "it has not said again that it lives, and never will"
    assert await b.unread("bob") == 2 and await b.wrong() == []
    assert await open_fields(b, group) == []


async def test_a_node_that_comes_back_under_its_name_finishes_what_it_left(
    settings: Settings, b: FaultyNode, a: FaultyNode, direct: str
) -> None:
    a.keyspace.fail("inbox_index", request_lost)
    assert await a.code("alice", direct, "m1") == "unavailable"
    async with open_faulty(settings, "a") as again:
        await again.core.registry.renew_node()  # so nobody else takes it for dead
        assert await b.core.takeover.finish_dead() == 0
        await again.core.takeover.finish_own()
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


@pytest.mark.parametrize("is_seeded_again", [False, True])
async def test_a_message_of_a_dead_node_is_counted_though_the_counter_is_lost(
    a: FaultyNode, b: FaultyNode, direct: str, is_seeded_again: bool
) -> None:
    await b.send("alice", direct, "m1")
    assert await b.unread("bob") == 1  # warm
    a.keyspace.fail("inbox_index", down)
    assert await a.code("alice", direct, "m2") == "unavailable"
    await a.command("DEL", a.core.keys.conv(direct))
    if is_seeded_again:
        await b.send("alice", direct, "m3")
    await bury(a, b)
    assert await b.unread("bob") == 2 + is_seeded_again and await b.wrong() == []


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
    a.faulty_log.faults.append(gate)
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
    assert await b.core.takeover.finish_dead() == 0
    assert await opened(b, "a") == {direct.encode()}


async def test_work_in_a_conversation_that_is_gone_is_finished(a: FaultyNode, b: FaultyNode, group: str) -> None:
    a.faulty_log.faults.append(down)
    assert await a.code("alice", group, "m1") == "unavailable"
    await b.core.directory.delete("alice", group)
    assert await bury(a, by=b) == 1
    await a.core.takeover.finish_own()
    a.clock.elapsed_s += 4
    await a.core.takeover.finish_own()
    assert a.core.open_work.open_from(group) == 0


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


async def test_the_nodes_that_are_left_share_the_work_of_a_dead_one(a: FaultyNode, b: FaultyNode) -> None:
    ids = []
    for i in range(24):
        view, _ = await a.core.directory.create("alice", kind="direct", members=[f"bob{i}"])
        ids.append(view.head.conversation_id)
    a.keyspace.fail("inbox_index", *[request_lost] * 24)
    await asyncio.gather(*(a.submit("alice", id_, "m1") for id_ in ids))
    await a.command("ZADD", a.core.keys.nodes, 0, "a")
    async with open_faulty(b.core.settings, "c") as c:
        done = await asyncio.gather(b.core.takeover.finish_dead(), c.core.takeover.finish_dead())
        indexed = [node.keyspace.said.count("inbox_index") for node in (b, c)]
    assert max(done) == 24
    assert min(indexed) > 0 and sum(indexed) < 2 * len(ids), "each begins with others, and skips what is finished"
    assert [await b.unread(f"bob{i}") for i in range(24)] == [1] * 24 and await b.wrong() == []


# --- two primaries for a while --------------------------------------------------------------------------


async def keys_of(node: FaultyNode, user_id: str, conversation_id: str) -> dict[str, bytes]:
    keys = node.core.keys
    names = (keys.inbox(user_id), keys.mark(user_id), keys.unread(user_id, conversation_id))
    return {name: await node.command("DUMP", name) for name in names}


async def put_back(node: FaultyNode, dumped: dict[str, bytes]) -> None:
    for name, value in dumped.items():
        await node.keyspace.one(plain(name, b"RESTORE", name, 0, value, b"REPLACE"))


async def test_what_was_indexed_on_a_primary_that_is_gone_is_indexed_and_routed_again(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    async with telling(a, b):
        await a.send("alice", group, "m1")
        assert await b.unread("carol") == 1
        phone = await connect(b, "carol")
        promoted = await keys_of(a, "carol", group)  # the replica, as it was promoted: its marks are warm
        for i in range(3):
            a.keyspace.fail("SPUBLISH", unheard)
            await a.send("alice", group, f"s{i}")
        await put_back(a, promoted)
        assert await b.unread("carol") == 1, "the new primary lacks what was indexed on the old one"
        a.core.open_work.epoch_changed("old", "new")
        await a.core.takeover.index_again()
        assert await b.unread("carol") == 4 and await b.wrong() == []
        await eventually(lambda: phone.seqs()[-3:] == [2, 3, 4])
        assert a.core.open_work.suspect == {}


async def test_only_the_last_minutes_are_indexed_again_and_never_from_an_old_resend(
    a: FaultyNode, direct: str, group: str
) -> None:
    await a.send("alice", direct, "m1")
    await a.send("alice", group, "g1")
    a.clock.elapsed_s += 2 * REINDEX_S
    await a.send("alice", group, "g2")
    a.clock.elapsed_s += 2 * REINDEX_S
    await a.send("alice", group, "g3")
    assert await a.code("alice", direct, "m1") == "duplicate"
    a.core.open_work.epoch_changed("old", "new")
    assert a.core.open_work.suspect == {group: 2}


async def test_what_cannot_be_indexed_again_now_is_tried_later(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    a.core.open_work.epoch_changed("old", "new")
    a.keyspace.fail("inbox_index", down)
    with pytest.raises(Unavailable):
        await a.core.takeover.index_again()
    assert a.core.open_work.suspect == {direct: 1}
    await a.core.takeover.index_again()
    assert a.core.open_work.suspect == {} and await a.unread("bob") == 1


async def test_the_memory_of_what_was_indexed_is_bounded(a: FaultyNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.messaging.send.open_work.REINDEX_MAX", 3)
    for i in range(20):
        view, _ = await a.core.directory.create("alice", kind="direct", members=[f"bob{i}"])
        await a.send("alice", view.head.conversation_id, "m1")
    a.core.open_work.epoch_changed("old", "new")
    assert 3 <= len(a.core.open_work.suspect) <= 8
