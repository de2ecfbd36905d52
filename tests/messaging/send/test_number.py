"""Number: the counter is seeded from the log, and a member list is never older than the numbers."""

from __future__ import annotations

import asyncio

from tests.support.messaging.faulty_stores import FaultyNode, code_of, told


def conv(node: FaultyNode, conversation_id: str) -> str:
    return node.core.keys.conv(conversation_id)


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
    assert times == sorted(times)
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
    await a.core.open_work.clear_closed()
    a.keyspace.runs.clear()
    await a.send("alice", direct, "m1")
    assert a.keyspace.runs == [["limiter_admit", "SADD", "conversation_number"], ["inbox_index"]]
    a.keyspace.runs.clear()
    await a.send("alice", direct, "m2")
    assert a.keyspace.runs == [["limiter_admit", "conversation_number"], ["inbox_index"]]
