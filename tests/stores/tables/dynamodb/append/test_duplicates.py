"""A dedupe row without its message: the number is closed before the id may be stored again."""

from __future__ import annotations

import asyncio

from tests.contracts import conversation, group, head_of, log, message
from tests.support.servers.dynamodb_tables import store_of
from tidings.stores.tables.dynamodb.append.duplicates import put_entry
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Known, Refused


async def leave_dangling(tables: Tables, conversation_id: str, seq_no: int) -> None:
    """What a node leaves that died between its two puts."""
    _, sent = put_entry(message(conversation_id, seq_no, message_id="x"))
    await store_of(tables).write(sent)


async def test_a_lost_number_is_closed_and_the_id_is_stored_once(dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    await dynamo.log.append([group(message(c, 1))])
    await leave_dangling(dynamo, c, 2)
    again = message(c, 3, message_id="x")
    assert await dynamo.log.append([group(again)]) == [None]
    entries = await log(dynamo, c)
    assert [(entry.seq_no, entry.kind) for entry in entries] == [(1, "message"), (2, "void"), (3, "message")]
    assert entries[1].sent_ms == entries[0].sent_ms + 1
    assert (await head_of(dynamo, c)).head == 3


async def test_a_number_that_another_entry_has_is_not_ours(dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    await dynamo.log.append([group(message(c, 1)), group(message(c, 2))])
    await leave_dangling(dynamo, c, 2)
    assert await dynamo.log.append([group(message(c, 3, message_id="x"))]) == [None]
    assert [entry.kind for entry in await log(dynamo, c)] == ["message"] * 3


async def test_a_writer_between_its_two_puts_is_given_a_moment(dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    await leave_dangling(dynamo, c, 1)
    slow = asyncio.ensure_future(dynamo.log.append([group(message(c, 2, message_id="x"))]))
    first, _ = put_entry(message(c, 1, message_id="x"))
    await store_of(dynamo).write(first)
    assert await slow == [Refused({0: Known(1)}, frozenset())]
    assert len(await log(dynamo, c)) == 1
    assert (await head_of(dynamo, c)).head == 1


async def test_many_who_find_the_same_lost_number_store_the_id_once(dynamo: Tables) -> None:
    c = await conversation(dynamo, "alice")
    await leave_dangling(dynamo, c, 1)
    copies = [message(c, seq_no, message_id="x") for seq_no in range(2, 8)]
    verdicts = await asyncio.gather(*(dynamo.log.append([group(copy)]) for copy in copies))
    stored = [entry for entry in await log(dynamo, c) if entry.kind == "message"]
    assert len(stored) == 1
    known = Refused({0: Known(stored[0].seq_no)}, frozenset())
    assert sorted(map(repr, verdicts)) == sorted(map(repr, [[None], *[[known]] * 5]))
