"""Open work: the journal of unfinished batches, from the first number to the last route."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import (
    FaultyNode,
    Gate,
    code_of,
    down,
    told,
)
from tests.support.messaging.open_work import bury, open_fields, opened


async def test_finished_work_is_taken_off_the_open_list(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    assert await opened(a, "a") == {direct.encode()}
    assert await open_fields(a, direct) == [b"open:a"]
    await a.core.open_work.clear_closed(older_than_s=60)
    assert await opened(a, "a") == {direct.encode()}
    await a.core.open_work.clear_closed()
    assert await opened(a, "a") == set() and await open_fields(a, direct) == []


async def test_work_under_way_stays_on_the_open_list(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    gate = Gate()
    a.faulty_log.faults.append(gate)
    send = a.submit("alice", direct, "m2")
    await gate.reached.wait()
    await a.core.takeover.finish_own()
    await a.core.open_work.clear_closed()
    assert await opened(a, "a") == {direct.encode()}
    assert await a.command("HGET", a.core.keys.conv(direct), "open:a") == b"2-2"
    gate.opened.set()
    await send


async def test_an_undecided_number_stays_on_record_until_it_is_decided(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.append(down)
    assert await a.code("alice", direct, "m1") == "unavailable"
    await a.core.takeover.finish_own()
    assert a.core.open_work.open_from(direct) == 1, "the slot is open: its commit may still come"
    await a.send("bob", direct, "m2")
    assert await a.command("HGET", a.core.keys.conv(direct), "open:a") == b"1-2"
    a.clock.elapsed_s += 4
    await a.core.takeover.finish_own()
    assert a.core.open_work.open_from(direct) == 0
    assert told(await a.log(direct)) == [(1, "void", None), (2, "message", "m2")]
    assert (await a.send("alice", direct, "m1")).entry.seq_no == 3


async def test_a_set_that_another_node_deleted_is_announced_again(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await bury(a, by=b)  # it was only slow
    await a.core.takeover.finish_own()
    gate = Gate()
    a.faulty_log.faults.append(gate)
    send = a.submit("alice", direct, "m2")
    await gate.reached.wait()
    assert await opened(b, "a") == {direct.encode()}
    gate.opened.set()
    assert code_of(await send) == "stored"


async def test_after_another_life_of_the_keyspace_everything_is_announced_again(a: FaultyNode, direct: str) -> None:
    lives = 0
    a.core.open_work.epoch_changes = lambda: lives  # type: ignore[method-assign]
    await a.send("alice", direct, "m1")
    await a.command("DEL", a.core.keys.open("a"))  # lost with the tail
    lives = 1
    await a.send("alice", direct, "m2")
    assert await opened(a, "a") == {direct.encode()}
