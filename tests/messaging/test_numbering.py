"""Number: the counter is seeded from the log, and a member list is never older than the numbers."""

from __future__ import annotations

import asyncio

import pytest

from tests.messaging.faulty import FaultyNode, Gate, code_of, down, told
from tidings.errors import NotFound
from tidings.messaging import numbering
from tidings.model import MemberChange


def conv(node: FaultyNode, conversation_id: str) -> str:
    return node.core.keys.conv(conversation_id)


async def test_a_missing_counter_is_seeded_from_the_log(a: FaultyNode, direct: str) -> None:
    for i in range(3):
        await a.send("alice", direct, f"m{i}")
    await a.command("DEL", conv(a, direct))
    assert (await a.send("alice", direct, "m3")).entry.seq_no == 4
    assert [entry.seq_no for entry in await a.log(direct)] == [1, 2, 3, 4]


async def test_a_counter_of_another_epoch_is_seeded_again_and_never_lowered(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.command("HSET", conv(a, direct), "epoch", "another life", "seq", 7)
    assert (await a.send("alice", direct, "m2")).entry.seq_no == 8


async def test_many_sends_that_meet_a_missing_counter_get_numbers_without_a_hole(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    await a.send("alice", direct, "first")
    await a.command("DEL", conv(a, direct))
    sends = [node.submit("alice", direct, f"m{i}") for i in range(50) for node in (a, b)]
    assert [code_of(answer) for answer in await asyncio.gather(*sends)].count("stored") == 50
    seqs = [entry.seq_no for entry in await a.log(direct)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len([entry for entry in await a.log(direct) if entry.kind == "message"]) == 51


async def test_a_counter_behind_the_table_overwrites_no_row_and_the_order_goes_on(a: FaultyNode, direct: str) -> None:
    await asyncio.gather(*(a.submit("alice", direct, f"m{i}") for i in range(120)))
    before = await a.log(direct)
    await a.command("HINCRBY", conv(a, direct), "seq", -100)
    await asyncio.gather(*(a.submit("alice", direct, f"n{i}", origin="socket") for i in range(60)))
    after = await a.log(direct)
    assert after[:120] == before
    later = [entry for entry in after[120:] if entry.kind == "message"]
    assert [entry.message_id for entry in later] == [f"n{i}" for i in range(60)]
    assert [entry.seq_no for entry in after] == list(range(1, len(after) + 1))
    times = [entry.sent_ms for entry in after]
    assert times == sorted(set(times))
    assert await a.unread("bob") == 180 and await a.wrong() == []


async def test_a_counter_that_is_a_little_behind_closes_the_free_numbers_it_gave_up(a: FaultyNode, direct: str) -> None:
    for i in range(4):
        await a.send("alice", direct, f"m{i}")
    await a.command("HINCRBY", conv(a, direct), "seq", -2)
    await asyncio.gather(*(a.submit("alice", direct, f"n{i}") for i in range(4)))  # 3 to 6: two of them are taken
    assert told(await a.log(direct))[4:] == [
        (5, "void", None),
        (6, "void", None),
        *((7 + i, "message", f"n{i}") for i in range(4)),
    ]
    assert (await a.send("alice", direct, "n0")).entry.seq_no == 7


async def test_a_number_comes_in_the_same_round_trip_as_its_announcement(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "warm")
    await a.core.repair.clear_finished()
    a.keyspace.runs.clear()
    await a.send("alice", direct, "m1")
    assert a.keyspace.runs == [["limiter_admit", "SADD", "conversation_number"], ["inbox_index", "inbox_index"]]
    a.keyspace.runs.clear()
    await a.send("alice", direct, "m2")
    assert a.keyspace.runs == [["limiter_admit", "conversation_number"], ["inbox_index", "inbox_index"]]


# --- members --------------------------------------------------------------------------------------


async def test_who_was_removed_on_another_node_cannot_send_and_the_number_is_voided(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("bob", group, "m1")  # b has the member list now
    await a.core.directory.remove("alice", group, "bob")
    assert await b.code("bob", group, "m2") == "not_found"
    assert told(await b.log(group)) == [
        (1, "message", "m1"),
        (2, "member", (await b.log(group))[1].message_id),
        (3, "void", None),
    ]


async def test_a_message_of_others_is_not_shown_to_who_was_removed_on_another_node(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("carol", group, "m1")
    assert await a.unread("bob") == 1
    await a.core.directory.remove("alice", group, "bob")
    await b.send("carol", group, "m2")
    assert await b.unread("bob") == 0
    assert (await b.core.inbox.page("bob", limit=20, cursor=None)).items == []
    with pytest.raises(NotFound):
        await b.core.history.page("bob", group)
    assert await b.unread("alice") == 2 and await b.wrong() == []


async def test_a_batch_waits_for_a_member_change_that_another_node_has_under_way(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("bob", group, "m1")
    gate = Gate()
    a.tables.faults.append(gate)
    removal = asyncio.ensure_future(a.core.directory.remove("alice", group, "bob"))
    await gate.reached.wait()
    send = b.submit("bob", group, "m2")
    other = asyncio.ensure_future(b.send("carol", group, "m3"))
    while "conversation_number" not in b.keyspace.runs[-1]:
        await asyncio.sleep(0.005)
    assert not send.done()
    gate.opened.set()
    await removal
    assert code_of(await send) == "not_found"
    assert (await other).entry.seq_no > 2


async def test_a_member_change_that_died_with_its_node_does_not_stop_the_conversation(
    a: FaultyNode, b: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await b.send("bob", group, "m1")
    a.tables.faults.append(down)  # numbered, announced as the newest member change, and never stored
    with pytest.raises(Exception, match="store"):
        await a.core.directory.remove("alice", group, "bob")
    monkeypatch.setattr(numbering, "OPEN_SLOT_S", 0.2)
    answer = await b.send("bob", group, "m2")
    assert told(await b.log(group)) == [(1, "message", "m1"), (2, "void", None), (3, "message", "m2")]
    assert answer.entry.seq_no == 3
    times = [entry.sent_ms for entry in await b.log(group)]
    assert times == sorted(set(times))
    pages = b.tables.pages
    await b.send("bob", group, "m3")  # the list is as new as it can be: nobody looks or waits again
    assert b.tables.pages == pages
    await a.core.directory.remove("alice", group, "bob")
    assert await b.code("bob", group, "m4") == "not_found"


async def test_a_member_added_on_two_nodes_at_once_joins_once(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await b.send("alice", group, "m1")
    gate = Gate()
    b.keyspace.fail("conversation_number", gate)  # b has authorized with the list of before
    late = asyncio.ensure_future(b.core.sends.change_members("alice", group, MemberChange("added", ("dave",))))
    await gate.reached.wait()
    await a.core.directory.add("alice", group, ["dave"])
    await a.send("bob", group, "m2")
    gate.opened.set()
    with pytest.raises(NotFound, match="no such member"):
        await late
    assert await b.unread("dave") == 1, "joining again would have moved his beginning past m2"
    kinds = [entry.kind for entry in await b.log(group)]
    assert kinds == ["message", "member", "message", "void"]


async def test_a_member_removed_on_two_nodes_at_once_leaves_once(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await b.send("alice", group, "m1")
    gate = Gate()
    b.keyspace.fail("conversation_number", gate)
    late = asyncio.ensure_future(b.core.directory.remove("alice", group, "bob"))
    await gate.reached.wait()
    await a.core.directory.remove("alice", group, "bob")
    gate.opened.set()
    with pytest.raises(NotFound):
        await late
    assert [entry.kind for entry in await b.log(group)] == ["message", "member", "void"]


async def test_a_conversation_deleted_on_another_node_is_not_found(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await b.send("bob", group, "m1")
    await a.core.directory.delete("alice", group)
    assert await b.code("bob", group, "m2") == "not_found"
    assert b.core.access.cached(group) is None
    assert await b.code("bob", group, "m3") == "not_found"


async def test_a_conversation_deleted_while_its_members_change_is_not_found(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("bob", group, "m1")
    await a.core.directory.add("alice", group, ["dave"])
    gate = Gate()
    a.keyspace.fail("UNLINK", gate)  # the tables have forgotten it, the keyspace not yet
    deletion = asyncio.ensure_future(a.core.directory.delete("alice", group))
    await gate.reached.wait()
    assert await b.code("bob", group, "m2") == "not_found"
    gate.opened.set()
    await deletion
