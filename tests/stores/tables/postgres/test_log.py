"""The contracts of the log on PostgreSQL, and what they cannot see: appends of several nodes at the same moment."""

from __future__ import annotations

import asyncio

from tests.contracts import conversation, group, log, message
from tests.contracts.messages import HeadsContract, MessagesContract, ReadsContract, RewritesContract
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Refused


class TestMessages(MessagesContract): ...


class TestHeads(HeadsContract): ...


class TestRewrites(RewritesContract): ...


class TestReads(ReadsContract): ...


async def test_batches_that_meet_in_many_conversations_take_turns_without_a_deadlock(tables: Tables) -> None:
    ids = [await conversation(tables, "alice", "bob") for _ in range(8)]

    async def node(number: int, order: list[str]) -> None:
        for round_ in range(10):
            seq_no = 1 + 2 * round_ + number
            entries = [message(id_, seq_no, message_id=f"m{number}-{round_}") for id_ in order]
            answers = await tables.log.append([group(entry) for entry in entries])
            assert list(answers) == [None] * len(ids)

    await asyncio.gather(node(0, ids), node(1, ids[::-1]))
    for id_ in ids:
        assert [entry.seq_no for entry in await log(tables, id_)] == list(range(1, 21))


async def test_one_taken_number_refuses_its_own_group_and_stores_the_others(tables: Tables) -> None:
    taken, free = await conversation(tables, "alice"), await conversation(tables, "alice")
    await tables.log.append([group(message(taken, 1, message_id="first"))])
    answers = await tables.log.append([group(message(taken, 1, message_id="late")), group(message(free, 1))])
    assert list(answers) == [Refused({}, frozenset({0})), None]
    assert [len(await log(tables, id_)) for id_ in (taken, free)] == [1, 1]
