"""Read marks of many members at once end as each of them alone would, whatever happens to one of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import Device, Fault, FaultyNode, answer_lost, down, throttled
from tests.support.messaging.warm_index_checks import say
from tidings.errors import NotFound, StoreError
from tidings.messaging.unread.read_together import Reading
from tidings.messaging.unread.rebuild import HOLD_MS
from tidings.model import ReadState, Status
from tidings.pushes import ReadSynced

PEOPLE = ("bob", "carol", "dora", "emil")


async def group_of(node: FaultyNode, messages: int = 3) -> str:
    """Everybody has looked, and nobody has read the messages of alice."""
    view, _ = await node.core.directory.create("alice", kind="group", members=PEOPLE, name="all")
    for user_id in PEOPLE:
        await node.unread(user_id)
    for number in range(messages):
        await node.send("alice", view.head.conversation_id, f"m{number}")
    return view.head.conversation_id


def fail_once(node: FaultyNode, fault: Fault) -> None:
    """The next put_each of the tables fails."""
    port, real = node.tables.statuses, node.tables.statuses.put_each

    async def put_each(statuses: list[Status]) -> object:
        port.put_each = real  # type: ignore[method-assign]
        return await fault(lambda: real(statuses))

    port.put_each = put_each  # type: ignore[method-assign, assignment]


async def marker_of(node: FaultyNode, user_id: str) -> object:
    return await say(node.core, "HGET", node.core.keys.mark(user_id), ":put")


async def test_each_gets_its_own_counts_and_its_other_devices_the_event(a: FaultyNode) -> None:
    id_ = await group_of(a)
    receipts: list[tuple[str, str, int]] = []
    a.core.events.read_up_to.add(lambda *receipt: receipts.append(receipt))
    phone, laptop = Device("bob", "1"), Device("bob", "2")
    a.core.hub.attach(phone)
    a.core.hub.attach(laptop)
    readings = [Reading(user_id, id_, up_to, "1") for user_id, up_to in zip(PEOPLE, (1, 2, 3, 1 << 40), strict=True)]
    await a.core.unread.mark_each(readings)
    states = [one.outcome for one in readings]
    assert [state.unread_count for state in states if isinstance(state, ReadState)] == [2, 1, 0, 0]
    assert states == [await a.core.unread.state(user_id, id_) for user_id in PEOPLE]
    assert ReadSynced(states[0]) in laptop.events  # type: ignore[arg-type]
    assert ReadSynced(states[0]) not in phone.events  # type: ignore[arg-type]
    assert sorted(receipts) == [(user_id, id_, seq) for user_id, seq in zip(PEOPLE, (1, 2, 3, 3), strict=True)]
    assert [await marker_of(a, user_id) for user_id in PEOPLE] == [None] * 4 and await a.wrong() == []


async def test_marks_of_many_take_few_round_trips_and_one_commit(a: FaultyNode) -> None:
    id_ = await group_of(a)
    runs, puts = [], []
    real_run, real_put = a.core.keyspace.run, a.tables.statuses.put_each
    a.core.keyspace.run = lambda calls: (runs.append(len(calls)), real_run(calls))[1]  # type: ignore
    a.tables.statuses.put_each = lambda statuses: (puts.append(len(statuses)), real_put(statuses))[1]  # type: ignore
    await a.core.unread.mark_each([Reading(user_id, id_, 3) for user_id in PEOPLE])
    assert puts == [4] and len(runs) <= 4
    assert await a.wrong() == []


async def test_a_stranger_and_one_who_has_read_it_go_their_own_way(a: FaultyNode) -> None:
    id_ = await group_of(a)
    await a.unread("eve")
    first = await a.core.unread.mark_read("bob", id_, up_to_seq=3)
    readings = [Reading(user_id, id_, 3) for user_id in ("eve", *PEOPLE)]
    await a.core.unread.mark_each(readings)
    assert isinstance(readings[0].outcome, NotFound) and readings[1].outcome == first
    assert all(isinstance(one.outcome, ReadState) and not one.outcome.unread_count for one in readings[1:])
    assert [await marker_of(a, user_id) for user_id in ("eve", *PEOPLE)] == [None] * 5
    assert (await a.core.tables.statuses.get("bob", [id_]))[id_].version == 1
    assert await a.core.tables.statuses.get("eve", [id_]) == {}


async def test_a_rebuild_of_one_holds_up_nobody_else(a: FaultyNode, monkeypatch: pytest.MonkeyPatch) -> None:
    id_ = await group_of(a)
    await a.core.unread.mark_read("emil", id_, up_to_seq=3)  # so emil's next mark goes alone
    unread, go_on, told = a.core.unread, asyncio.Event(), list[str]()
    show_now, show_read = unread._show_now, unread.show_read

    async def slowly(*given: Any) -> ReadState:
        await go_on.wait()
        return await show_read(*given)

    monkeypatch.setattr(unread, "_show_now", lambda one, answer: one.user_id != "bob" and show_now(one, answer))
    monkeypatch.setattr(unread, "show_read", slowly)
    readings = [Reading(user_id, id_, 3) for user_id in PEOPLE]
    marking = asyncio.create_task(unread.mark_each(readings, lambda some: told.extend(one.user_id for one in some)))
    async with asyncio.timeout(60):
        while len(told) < 3:
            await asyncio.sleep(0.01)
    assert told == ["carol", "dora", "emil"] and readings[0].outcome is None
    go_on.set()
    await marking
    assert told == ["carol", "dora", "emil", "bob"]
    assert all(isinstance(one.outcome, ReadState) and not one.outcome.unread_count for one in readings)
    assert await a.wrong() == []


async def test_an_error_after_the_commit_is_the_answer_of_its_mark_alone(
    a: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_, unread, told = await group_of(a), a.core.unread, list[str]()
    show_now = unread._show_now

    async def broken(*given: Any) -> ReadState:
        raise ZeroDivisionError

    monkeypatch.setattr(unread, "_show_now", lambda one, answer: one.user_id != "bob" and show_now(one, answer))
    monkeypatch.setattr(unread, "show_read", broken)
    readings = [Reading(user_id, id_, 3) for user_id in PEOPLE]
    await unread.mark_each(readings, lambda some: told.extend(one.user_id for one in some))
    assert isinstance(readings[0].outcome, ZeroDivisionError)
    assert all(isinstance(one.outcome, ReadState) for one in readings[1:]) and sorted(told) == sorted(PEOPLE)


async def test_nobody_reads_a_conversation_that_does_not_exist(a: FaultyNode) -> None:
    readings = [Reading(user_id, "c-nowhere", 3) for user_id in PEOPLE]
    await a.core.unread.mark_each(readings)
    assert all(isinstance(one.outcome, NotFound) for one in readings)


async def test_marks_of_the_same_members_on_two_nodes_at_once_all_succeed(a: FaultyNode, b: FaultyNode) -> None:
    id_ = await group_of(a)
    readings = [[Reading(user_id, id_, up_to) for user_id in PEOPLE] for up_to in (1, 2, 3, 2)]
    nodes = (a, b, a, b)
    await asyncio.gather(*(node.core.unread.mark_each(some) for node, some in zip(nodes, readings, strict=True)))
    assert all(isinstance(one.outcome, ReadState) for some in readings for one in some)
    for user_id in PEOPLE:
        assert (await b.core.unread.state(user_id, id_)).unread_count == 0
    assert await a.wrong() == []


@pytest.mark.parametrize("fault", [throttled, down])
async def test_marks_that_wrote_nothing_make_nobody_cold(a: FaultyNode, fault: Fault) -> None:
    id_ = await group_of(a)
    fail_once(a, fault)
    readings = [Reading(user_id, id_, 3) for user_id in PEOPLE]
    await a.core.unread.mark_each(readings)
    assert all(isinstance(one.outcome, StoreError) for one in readings)
    assert [await marker_of(a, user_id) for user_id in PEOPLE] == [None] * 4
    assert await a.unread("bob") == 3


async def test_marks_without_an_answer_make_their_conversation_cold(a: FaultyNode) -> None:
    id_ = await group_of(a)
    fail_once(a, answer_lost)
    readings = [Reading(user_id, id_, 3) for user_id in PEOPLE]
    await a.core.unread.mark_each(readings)
    assert all(isinstance(one.outcome, StoreError) for one in readings)
    a.clock.elapsed_s += HOLD_MS / 1000 + 1
    await a.core.unknown_outcomes.settle()
    assert [await a.unread(user_id) for user_id in PEOPLE] == [0] * 4 and await a.wrong() == []


async def test_a_cold_member_is_counted_from_the_tables(a: FaultyNode) -> None:
    id_ = await group_of(a)
    await say(a.core, "DEL", a.core.keys.mark("bob"))
    readings = [Reading(user_id, id_, 2) for user_id in PEOPLE]
    await a.core.unread.mark_each(readings)
    assert [one.outcome.unread_count for one in readings if isinstance(one.outcome, ReadState)] == [1] * 4
    assert await a.wrong() == []
