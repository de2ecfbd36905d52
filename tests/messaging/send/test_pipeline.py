"""The way of a message: order, exactly one answer, holds, and what happens when a store goes away."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import AsyncIterator, Set
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.messaging.drafts import draft
from tests.support.messaging.faulty_stores import (
    Device,
    FaultyNode,
    Gate,
    Late,
    answer_lost,
    code_of,
    down,
    open_faulty,
    record_members,
    request_lost,
    told,
)
from tests.support.waiting import eventually
from tidings.bounds import LANES
from tidings.config.settings import Settings
from tidings.errors import NotFound, Problem, StoreUnavailable
from tidings.messaging.send import lanes
from tidings.messaging.send.batch import Batch
from tidings.messaging.send.draft import Draft, size_of
from tidings.messaging.send.lanes import Lane
from tidings.model import Content, Sent
from tidings.pushes import MessageNew
from tidings_proof.world.valkey import ValkeyProcess, start_valkey

# --- order ----------------------------------------------------------------------------------------


async def test_the_first_message_of_a_conversation_has_number_one(a: FaultyNode, direct: str) -> None:
    sent = await a.send("alice", direct, "m1", "hello")
    assert (sent.entry.seq_no, sent.is_duplicate) == (1, False)
    assert (sent.entry.text, sent.entry.sender_id, sent.entry.receiver_id) == ("hello", "alice", "bob")
    assert await a.unread("bob") == 1 and await a.unread("alice") == 0


async def test_devices_keep_their_own_order_under_concurrency_on_two_nodes(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    async def device(node: FaultyNode, user_id: str, name: str) -> None:
        underway: list[asyncio.Future[Sent | Problem]] = []
        for i in range(40):
            underway.append(node.submit(user_id, group, f"{name}-{i}", origin=name))
            if random.random() < 0.2:
                await asyncio.wait(underway, return_when=asyncio.FIRST_COMPLETED)
            if random.random() < 0.2:
                underway.append(node.submit(user_id, group, f"{name}-{i}", origin=name))
        assert {code_of(one) for one in await asyncio.gather(*underway)} <= {"stored", "duplicate"}

    users = ("alice", "bob", "carol")
    await asyncio.gather(*(device((a, b)[i % 2], users[i % 3], f"d{i}") for i in range(12)))
    log = await a.log(group)
    assert [entry.seq_no for entry in log] == list(range(1, len(log) + 1))
    times = [entry.sent_ms for entry in log]
    assert times == sorted(times)
    for i in range(12):
        mine = [entry.message_id for entry in log if (entry.message_id or "").startswith(f"d{i}-")]
        assert mine == [f"d{i}-{n}" for n in range(40)]
    assert await a.wrong() == []


async def test_answers_come_in_the_order_of_the_numbers(a: FaultyNode, direct: str) -> None:
    replies: list[tuple[str, Sent | Problem]] = []
    await asyncio.gather(*(a.submit("alice", direct, f"m{i}", replies=replies) for i in range(200)))
    seqs = [answer.entry.seq_no for _, answer in replies if isinstance(answer, Sent)]
    assert seqs == list(range(1, 201))
    assert [message_id for message_id, _ in replies] == [f"m{i}" for i in range(200)]


async def test_while_a_batch_is_under_way_the_next_one_gathers(a: FaultyNode, direct: str) -> None:
    gate = Gate()
    a.faulty_log.faults.append(gate)
    first = a.submit("alice", direct, "m0")
    await gate.reached.wait()
    rest = [a.submit("alice", direct, f"m{i}") for i in range(1, 101)]
    gate.opened.set()
    await asyncio.gather(first, *rest)
    assert [len(groups[0].entries) for groups in a.faulty_log.appends] == [1, 45, 45, 10]


async def test_two_drafts_with_the_same_id_in_one_batch_are_one_message(a: FaultyNode, direct: str) -> None:
    answers = await asyncio.gather(
        a.submit("alice", direct, "m1", "same"),
        a.submit("alice", direct, "m1", "same"),
        a.submit("alice", direct, "m1", "other"),
        a.submit("bob", direct, "m1", "other"),
    )
    assert [code_of(answer) for answer in answers] == ["stored", "duplicate", "conflict", "stored"]
    assert told(await a.log(direct)) == [(1, "message", "m1"), (2, "message", "m1")]
    assert len(a.faulty_log.appends) == 1


async def test_a_member_change_stands_in_the_log_where_it_happened(a: FaultyNode, group: str) -> None:
    sends = [a.submit("alice", group, f"m{i}") for i in range(3)]
    change = asyncio.ensure_future(a.core.directory.add("alice", group, ["dave"]))
    await asyncio.gather(*sends, change)
    await a.send("dave", group, "hello")
    kinds = [entry.kind for entry in await a.log(group)]
    assert kinds.count("member") == 1 and kinds[-1] == "message"
    assert all(len(groups) == 1 for groups in a.faulty_log.appends if groups[0].members)
    assert all(len(groups[0].entries) == 1 for groups in a.faulty_log.appends if groups[0].members)


# --- who may --------------------------------------------------------------------------------------


async def test_a_stranger_hears_the_same_as_of_a_conversation_that_does_not_exist(a: FaultyNode, group: str) -> None:
    answers = [await a.submit("zoe", group, "m1"), await a.submit("zoe", "c-nowhere", "m1")]
    assert [(type(answer), str(answer)) for answer in answers] == [(NotFound, "no such conversation")] * 2
    assert await a.log(group) == []


async def test_strangers_among_members_cost_one_read(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "warm")
    reads = record_members(a)
    sends = [a.submit("zoe", group, f"z{i}") for i in range(30)] + [a.submit("bob", group, "m1")]
    codes = [code_of(answer) for answer in await asyncio.gather(*sends)]
    assert codes == ["not_found"] * 30 + ["stored"]
    assert reads == ["heads"]


async def test_who_joined_on_another_node_may_send_at_once(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await b.send("bob", group, "m1")
    await a.core.directory.add("alice", group, ["dave"])
    assert await b.code("dave", group, "m2") == "stored"


# --- a store goes away ----------------------------------------------------------------------------


async def test_a_refused_send_starts_a_hold_that_passes_in_order(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.append(down)
    assert await a.code("alice", direct, "m1", origin="socket") == "unavailable"
    assert await a.code("alice", direct, "m2", origin="socket") == "held"
    assert await a.code("alice", direct, "m3", origin="socket") == "held"
    assert await a.code("bob", direct, "other", origin="another") == "stored"
    for id_ in ("m1", "m2", "m3"):
        assert await a.code("alice", direct, id_, origin="socket") == "stored"
    assert await a.code("alice", direct, "m4", origin="socket") == "stored"
    log = [entry.message_id for entry in await a.log(direct) if entry.sender_id == "alice"]
    assert log == ["m1", "m2", "m3", "m4"]


async def test_abandoning_what_was_refused_ends_the_hold(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.append(down)
    assert await a.code("alice", direct, "m1", origin="socket") == "unavailable"
    assert await a.code("alice", direct, "m2", origin="socket") == "held"
    a.core.sends.abandon("socket", direct, "m1")
    assert await a.code("alice", direct, "m2", origin="socket") == "stored"
    assert await a.code("alice", direct, "m3", origin="socket") == "stored"


async def test_what_is_abandoned_under_way_is_not_put_into_a_hold(a: FaultyNode, direct: str) -> None:
    late = Late()
    a.faulty_log.faults.append(late)
    first = a.submit("alice", direct, "m1", origin="socket")
    await late.reached.wait()
    a.core.sends.abandon("socket", direct, "m1")
    late.opened.set()
    assert code_of(await first) == "unavailable"
    assert await a.code("alice", direct, "m2", origin="socket") == "stored"


async def test_what_is_abandoned_in_the_queue_is_not_sent(a: FaultyNode, direct: str) -> None:
    late = Late()
    a.faulty_log.faults.append(late)
    first = a.submit("alice", direct, "m1", origin="socket")
    await late.reached.wait()
    second = a.submit("alice", direct, "m2", origin="socket")
    a.core.sends.abandon("socket", direct, "m2")
    late.opened.set()
    assert [code_of(await answer) for answer in (first, second)] == ["unavailable", "unavailable"]
    assert [await a.code("alice", direct, id_, origin="socket") for id_ in ("m1", "m3")] == ["stored", "stored"]


async def test_a_hold_ends_with_its_connection(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.append(down)
    assert await a.code("alice", direct, "m1", origin="socket") == "unavailable"
    a.core.sends.forget("socket")
    assert await a.code("alice", direct, "m2", origin="the next one") == "stored"
    assert not a.core.sends._holds.held


async def test_the_lanes_are_looked_through_once_for_all_connections_that_go_together(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Set[str]] = []

    def forget(self: Lane, origins: Set[str]) -> list[Draft]:
        looks.append(origins)
        return []

    monkeypatch.setattr(Lane, "forget", forget)
    for name in ("one", "two", "three"):
        a.core.sends.forget(name)
    assert await a.code("alice", direct, "m1") == "stored"
    assert looks == [{"one", "two", "three"}] * LANES


async def test_a_send_that_is_refused_for_good_holds_nothing(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "one")
    assert await a.code("alice", direct, "m1", "two", origin="socket") == "conflict"
    assert await a.code("alice", direct, "m2", origin="socket") == "stored"


async def test_a_held_send_that_is_refused_for_good_waits_no_longer(a: FaultyNode, group: str) -> None:
    """Else nothing of this connection would ever pass again in a conversation that its user comes back to."""
    a.faulty_log.faults.append(down)
    assert await a.code("bob", group, "m1", origin="socket") == "unavailable"
    await a.core.directory.remove("alice", group, "bob")
    assert await a.code("bob", group, "m1", origin="socket") == "not_found"
    await a.core.directory.add("alice", group, ["bob"])
    assert await a.code("bob", group, "m2", origin="socket") == "stored"


@pytest.mark.parametrize("stage", ["limiter_admit", "conversation_number", "inbox_index"])
@pytest.mark.parametrize("fault", [down, request_lost, answer_lost], ids=lambda fault: fault.__name__)
async def test_a_batch_that_fails_at_any_stage_is_refused_held_and_resent_in_order(
    a: FaultyNode, direct: str, stage: str, fault: object
) -> None:
    await a.send("alice", direct, "m0")
    a.keyspace.fail(stage, fault)  # type: ignore[arg-type]
    ids = [f"m{i}" for i in range(1, 6)]
    answers = await asyncio.gather(*(a.submit("alice", direct, id_, origin="socket") for id_ in ids))
    assert {code_of(answer) for answer in answers} == {"unavailable"}
    assert await a.code("alice", direct, "m6", origin="socket") == "held"
    again = [await a.submit("alice", direct, id_, origin="socket") for id_ in [*ids, "m6"]]
    assert {code_of(answer) for answer in again} <= {"stored", "duplicate"}
    messages = [entry for entry in await a.log(direct) if entry.kind == "message"]
    assert [entry.message_id for entry in messages] == ["m0", *ids, "m6"]
    assert [answer.entry.seq_no for answer in again if isinstance(answer, Sent)] == [m.seq_no for m in messages[1:]]
    assert await a.unread("bob") == 7 and await a.wrong() == []


async def test_the_same_id_over_two_connections_is_held_on_both(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.append(down)
    answers = await asyncio.gather(*(a.submit("alice", direct, "m1", origin=name) for name in ("one", "two")))
    assert [code_of(answer) for answer in answers] == ["unavailable"] * 2
    assert [await a.code("alice", direct, "m2", origin=name) for name in ("one", "two")] == ["held"] * 2


async def test_what_is_stored_over_one_connection_is_held_on_no_other(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.append(down)
    for expected in (["unavailable"] * 2, ["stored", "duplicate"]):
        answers = await asyncio.gather(*(a.submit("alice", direct, "m1", origin=name) for name in ("one", "two")))
        assert [code_of(answer) for answer in answers] == expected
    assert [await a.code("alice", direct, f"m-{name}", origin=name) for name in ("one", "two")] == ["stored"] * 2


async def test_a_mistake_of_ours_is_answered_internal_and_the_lane_goes_on(a: FaultyNode, direct: str) -> None:
    async def broken(do: object) -> None:
        raise RuntimeError("a mistake of ours")

    a.faulty_log.faults.append(broken)
    assert await a.code("alice", direct, "m1") == "internal"
    assert await a.code("alice", direct, "m1") == "stored"
    assert len(await a.log(direct)) == 1


async def test_an_answer_that_nobody_takes_harms_no_other(a: FaultyNode, direct: str) -> None:
    def gone(result: object) -> None:
        raise RuntimeError("the socket is gone")

    a.core.sends.submit(
        Draft(sender_id="alice", conversation_id=direct, message_id="m1", content=Content("hi"), reply=gone)
    )
    assert await a.code("alice", direct, "m2") == "stored"
    assert len(await a.log(direct)) == 2


async def test_slots_that_cannot_be_given_back_do_not_answer_a_resend_twice(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    a.keyspace.fail("ZREM", request_lost)
    assert await a.code("alice", direct, "m1", origin="socket") == "duplicate"
    assert await a.code("alice", direct, "m2", origin="socket") == "stored"


async def test_a_conversation_that_is_full_refuses_and_lets_nothing_overtake(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "CONVERSATION_QUEUE_BYTES_MAX", 100 * size_of(draft("b1")))
    gate = Gate()
    a.faulty_log.faults.append(gate)
    first = a.submit("alice", direct, "m0", origin="socket")
    await gate.reached.wait()
    queued = [a.submit("bob", direct, f"b{i}") for i in range(100)]
    assert code_of(await a.submit("alice", direct, "m1", origin="socket")) == "unavailable"
    a.core.sends.drop_queued()
    gate.opened.set()
    assert code_of(await first) == "stored"
    assert {code_of(answer) for answer in await asyncio.gather(*queued)} == {"unavailable"}
    assert await a.code("alice", direct, "m2", origin="socket") == "held"
    assert await a.code("alice", direct, "m1", origin="socket") == "stored"


async def test_a_node_that_drains_finishes_what_is_queued_and_takes_nothing_more(a: FaultyNode, direct: str) -> None:
    sends = [a.submit("alice", direct, f"m{i}") for i in range(100)]
    drain = asyncio.ensure_future(a.core.sends.drain())
    await eventually(lambda: a.core.sends._is_draining)
    assert isinstance(await a.submit("alice", direct, "late"), StoreUnavailable)
    await drain
    assert {code_of(answer) for answer in await asyncio.gather(*sends)} == {"stored"}
    assert await a.command("EXISTS", a.core.keys.open("a")) == 0


async def test_draining_writes_the_rows_even_when_the_keyspace_is_gone(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "last words")
    a.keyspace.fail("HDEL", down)
    with pytest.raises(Exception, match="down"):
        await a.core.sends.drain()
    rows = await a.tables.inboxes.rows("bob", [direct])
    assert rows[direct].last_message_preview == "last words"


# --- delivery, as far as it is the lane's ---------------------------------------------------------


async def test_everybody_connected_gets_a_message_but_the_connection_that_sent_it(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    assert await a.unread("bob") == 1  # the conversation is new to him: he has looked
    devices = [Device("alice", "phone"), Device("alice", "laptop"), Device("bob", "tablet")]
    for device in devices:
        a.core.hub.attach(device)
    await a.code("alice", direct, "m2", origin="phone")
    await eventually(lambda: devices[2].seqs() == [2])
    assert [device.seqs() for device in devices] == [[], [2], [2]]
    (event,) = devices[2].events
    assert isinstance(event, MessageNew) and (event.unread_count, event.total_unread) == (2, 2)


async def test_a_duplicate_is_not_pushed_again(a: FaultyNode, direct: str) -> None:
    bob = Device("bob", "tablet")
    a.core.hub.attach(bob)
    for _ in range(3):
        await a.send("alice", direct, "m1")
    await a.send("alice", direct, "m2")
    assert bob.seqs() == [1, 2]


async def test_every_stage_is_measured(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    page = a.core.metrics.render().decode()
    for stage in ("admit", "number", "store", "index", "acknowledge", "route"):
        assert f'tidings_stage_seconds_count{{stage="{stage}"}} 1.0' in page
    assert "tidings_messages_total 1.0" in page


# --- the keyspace itself is killed ----------------------------------------------------------------


@pytest.fixture
async def mortal(settings: Settings, tmp_path: Path) -> AsyncIterator[tuple[FaultyNode, ValkeyProcess]]:
    """A node on a server of its own, which a test may kill."""
    server = start_valkey(tmp_path / "v", args=("--appendonly", "yes", "--appendfsync", "always"))
    try:
        async with open_faulty(dataclasses.replace(settings, keyspace=server.url), "a") as node:
            yield node, server
    finally:
        server.stop()


async def test_a_keyspace_killed_between_store_and_index(mortal: tuple[FaultyNode, ValkeyProcess]) -> None:
    node, server = mortal
    view, _ = await node.core.directory.create("alice", kind="direct", members=["bob"])
    id_ = view.head.conversation_id
    assert await node.unread("bob") == 0
    await node.send("alice", id_, "m1")
    gate = Gate()
    node.keyspace.fail("inbox_index", gate)
    send = node.submit("alice", id_, "m2")
    await gate.reached.wait()  # stored
    server.kill()
    gate.opened.set()
    assert code_of(await send) == "unavailable"
    assert await node.code("alice", id_, "m3") == "unavailable"
    server.start()
    await eventually(node.core.keyspace.is_up)
    again = await node.send("alice", id_, "m2")
    assert (again.entry.seq_no, again.is_duplicate) == (2, True)
    assert (await node.send("alice", id_, "m3")).entry.seq_no == 3
    assert await node.unread("bob") == 3 and await node.wrong() == []


async def test_a_keyspace_flushed_under_way_changes_no_number_and_no_count(
    mortal: tuple[FaultyNode, ValkeyProcess],
) -> None:
    node, server = mortal
    view, _ = await node.core.directory.create("alice", kind="direct", members=["bob"])
    id_ = view.head.conversation_id
    for i in range(5):
        sends = [node.submit("alice", id_, f"m{i}-{n}", origin="socket") for n in range(60)]
        server.command("FLUSHALL")
        assert {code_of(answer) for answer in await asyncio.gather(*sends)} == {"stored"}
    resent = await asyncio.gather(*(node.submit("alice", id_, f"m{i}-{n}") for i in range(5) for n in range(60)))
    assert {code_of(answer) for answer in resent} == {"duplicate"}
    messages = [entry for entry in await node.log(id_) if entry.kind == "message"]
    assert [entry.message_id for entry in messages] == [f"m{i}-{n}" for i in range(5) for n in range(60)]
    assert all(later.seq_no == earlier.seq_no + 1 for earlier, later in pairwise(await node.log(id_)))
    assert await node.unread("bob") == 300 and await node.wrong() == []


async def test_what_a_lost_connection_had_queued_is_not_sent(a: FaultyNode, direct: str) -> None:
    gate = Gate()
    a.faulty_log.faults.append(gate)
    first = a.submit("alice", direct, "m1", origin="old")
    await gate.reached.wait()
    second = a.submit("alice", direct, "m2", origin="old")
    third = a.submit("alice", direct, "m3", origin="new")
    a.core.sends.forget("old")
    gate.opened.set()
    assert [code_of(await answer) for answer in (first, second, third)] == ["stored", "unavailable", "stored"]
    assert told(await a.log(direct)) == [(1, "message", "m1"), (2, "message", "m3")]


async def test_what_a_lost_connection_had_under_way_holds_nothing_when_it_is_refused(
    a: FaultyNode, direct: str
) -> None:
    late = Late()
    a.faulty_log.faults.append(late)
    answers = [a.submit("alice", direct, "m1", origin=origin) for origin in ("phone", "laptop")]  # the same, twice
    await late.reached.wait()
    a.core.sends.forget("phone")
    a.core.sends.forget("laptop")
    late.opened.set()
    assert [code_of(await answer) for answer in answers] == ["unavailable", "unavailable"]
    assert not a.core.sends._holds.held


async def test_what_a_lost_connection_had_under_way_does_not_overtake_what_was_refused_before(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a.faulty_log.faults.append(down)
    assert await a.code("alice", direct, "m1", origin="phone") == "unavailable"
    reached, opened, check = asyncio.Event(), asyncio.Event(), a.core.pipeline.admit.check

    async def late(batch: Batch) -> None:
        reached.set()
        await opened.wait()
        await check(batch)

    monkeypatch.setattr(a.core.pipeline.admit, "check", late)
    second = a.submit("alice", direct, "m2", origin="phone")
    await reached.wait()
    a.core.sends.forget("phone")
    opened.set()
    assert code_of(await second) == "unavailable"
    assert [kind for _, kind, _ in told(await a.log(direct)) if kind == "message"] == []
