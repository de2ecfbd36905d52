"""Counters: a counter that was lost goes on where the log is, in number, in time and in its member list."""

from __future__ import annotations

import asyncio

from tests.support.messaging.faulty_stores import FaultyNode, Gate, code_of
from tidings.model import Entry, Sent
from tidings.stores.tables.values import Group


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


# --- times ---------------------------------------------------------------------------------------------


async def test_sent_at_does_not_run_ahead_of_the_clock_however_many_are_sent(a: FaultyNode, direct: str) -> None:
    before_ms = a.clock.now_ms()
    await asyncio.gather(*(a.submit("alice", direct, f"m{i}") for i in range(2_000)))
    after_ms = a.clock.now_ms()
    times = [entry.sent_ms for entry in await a.log(direct)]
    assert times == sorted(times) and len(times) == 2_000
    assert before_ms <= times[0] and times[-1] <= after_ms


async def test_a_counter_that_was_lost_goes_on_with_the_highest_time_of_the_last_entries(
    a: FaultyNode, direct: str
) -> None:
    await a.send("alice", direct, "m1")
    key = conv(a, direct)
    ahead_ms = a.clock.now_ms() + 60_000
    await a.command("HSET", key, "at", ahead_ms)  # a clock that is a minute ahead
    await a.send("alice", direct, "m2")
    void = Entry(conversation_id=direct, seq_no=3, kind="void", sent_ms=ahead_ms - 50_000)
    await a.tables.log.append([Group(conversation_id=direct, entries=(void,))])
    await a.command("DEL", key)
    await a.send("alice", direct, "m3")
    times = [entry.sent_ms for entry in await a.log(direct) if entry.kind == "message"]
    assert times == sorted(times) and times[-1] >= ahead_ms


# --- members_seq -----------------------------------------------------------------------------------------


async def test_who_was_removed_while_the_counter_was_lost_cannot_send_through_a_node_with_an_older_list(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    await b.send("bob", group, "m2")  # b has the list in memory
    gate = Gate()
    a.faulty_log.faults.append(gate)
    removal = asyncio.ensure_future(a.core.directory.remove("alice", group, "carol"))
    await gate.reached.wait()  # it has its number, and is not committed yet
    await a.command("DEL", conv(a, group))
    void = Gate()
    b.faulty_log.faults.extend([lambda do: do(), void])
    again = b.submit("bob", group, "m2")  # a resend seeds the counter, from a log without the removal
    await void.reached.wait()  # it has given its number up, which the removal has
    gate.opened.set()
    await removal
    void.opened.set()
    assert code_of(await again) == "duplicate"
    assert int(await a.command("HGET", conv(a, group), "members_seq")) == 3
    assert await b.code("carol", group, "m4") == "not_found"


# --- a message that is sent after another was acknowledged stands above it --------------------------------


async def test_a_message_stands_above_one_that_was_acknowledged_above_a_gap_while_the_counter_was_lost(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    slow, slower = Gate(), Gate()
    b.faulty_log.faults.append(slower)
    under_way = b.submit("bob", group, "x")  # 2, and its commit hangs
    await slower.reached.wait()
    a.faulty_log.faults.append(slow)
    first = a.submit("alice", group, "first")  # 3
    await slow.reached.wait()
    await a.command("DEL", conv(a, group))
    await b.core.counters.seed(group)  # the log ends at 1 still
    slow.opened.set()
    answer = await first
    assert isinstance(answer, Sent) and answer.entry.seq_no == 3
    assert (await a.send("alice", group, "after")).entry.seq_no > 3
    slower.opened.set()
    assert code_of(await under_way) == "stored"
    assert await a.wrong() == []


async def test_a_seed_from_before_the_counter_was_lost_again_does_not_count(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    await a.command("DEL", conv(a, group))
    stale = Gate()
    b.keyspace.fail("conversation_seed", stale)
    seed = asyncio.ensure_future(b.core.counters.seed(group))
    await stale.reached.wait()  # it has read that the log ends at 1
    await a.core.counters.seed(group)
    await a.command("HINCRBY", conv(a, group), "seq", 1)  # 2 was given to a node that died
    answer = await a.send("alice", group, "first")
    assert answer.entry.seq_no == 3
    await a.command("DEL", conv(a, group))
    stale.opened.set()
    await seed
    assert await a.command("HGET", conv(a, group), "seq") is None
    assert (await a.send("alice", group, "after")).entry.seq_no == 4


async def test_many_who_seed_at_once_share_one_seed(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.command("DEL", conv(a, group))
    await asyncio.gather(*(node.core.counters.seed(group) for node in (a, b) for _ in range(20)))
    stored = await a.command("HMGET", conv(a, group), "seq", "seeding")
    assert stored == [b"1", None]
    assert (await b.send("bob", group, "m2")).entry.seq_no == 2
