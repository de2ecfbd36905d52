"""The cheaper way keeps the same promises: crashes, slow writers and other texts between its two puts."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.contracts import conversation, group, head_of, log, message
from tests.dynamodb_local import DynamoLocal
from tests.stores.dynamo import Once, faults
from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Throttled, Unavailable
from tidings.model import Member, digest_of
from tidings.stores.dynamodb_cheap import is_single
from tidings.stores.dynamodb_known import put_entry
from tidings.stores.ports import Known, Refused
from tidings.stores.tables_dynamodb import DynamoTables


def test_only_a_single_message_with_an_id_goes_this_way() -> None:
    one = message("c", 1)
    assert is_single(group(one))
    assert not is_single(group(one, message("c", 2)))
    assert not is_single(group(msgspec.structs.replace(one, message_id=None)))
    assert not is_single(group(one, members=(Member(conversation_id="c", user_id="u"),)))


@pytest.mark.parametrize("table", ["sent", "messages"])
@pytest.mark.parametrize("kind", ["lost", "error", "throttled", "conflict"])
async def test_trouble_with_either_put_is_nobodys_business(
    dynamodb: DynamoLocal, cheap: DynamoTables, kind: str, table: str
) -> None:
    c = await conversation(cheap, "alice")
    fault = Once(kind, "PutItem", table=table)
    with faults(dynamodb, fault):
        assert await cheap.append([group(message(c, 1))]) == [None]
    assert fault.left == 0
    assert len(await log(cheap, c)) == 1 and (await head_of(cheap, c)).head == 1


async def test_both_replies_lost_is_still_our_own(dynamodb: DynamoLocal, cheap: DynamoTables) -> None:
    c = await conversation(cheap, "alice")
    with faults(dynamodb, Once("lost", "PutItem", times=2)):
        assert await cheap.append([group(message(c, 1))]) == [None]


async def test_a_crash_between_the_puts_is_finished_by_the_same_number(
    dynamodb: DynamoLocal, cheap: DynamoTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = await conversation(cheap, "alice")
    monkeypatch.setattr(bounds, "DYNAMODB_DEADLINE_S", 0.2)
    with faults(dynamodb, Once("throttled", "PutItem", table="messages", times=1000)):
        with pytest.raises(Unavailable) as said:
            await cheap.append([group(message(c, 1))])
        assert said.value.is_ambiguous  # the dedupe row is written
    assert await cheap.append([group(message(c, 1))]) == [None]
    assert len(await log(cheap, c)) == 1


async def test_a_dedupe_row_that_was_throttled_wrote_nothing(
    dynamodb: DynamoLocal, cheap: DynamoTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = await conversation(cheap, "alice")
    monkeypatch.setattr(bounds, "DYNAMODB_DEADLINE_S", 0.2)
    with faults(dynamodb, Once("throttled", "PutItem", times=1000)), pytest.raises(Throttled):
        await cheap.append([group(message(c, 1))])
    assert await log(cheap, c) == []


async def test_a_slow_writer_finds_its_slot_closed_and_the_id_stored_elsewhere(cheap: DynamoTables) -> None:
    """A has its dedupe row for 1, and sleeps. B sends the id again as 2. A wakes up."""
    c = await conversation(cheap, "alice")
    slow = message(c, 1, message_id="x")
    _, sent = put_entry(slow, Clock().now_ms())
    await cheap.store.write(sent)
    assert await cheap.append([group(message(c, 2, message_id="x"))]) == [None]
    assert await cheap.append([group(slow)]) == [Refused({0: Known(2, digest_of("hello"))}, frozenset())]
    assert [(entry.seq_no, entry.kind) for entry in await log(cheap, c)] == [(1, "void"), (2, "message")]


async def test_a_taken_slot_takes_the_dedupe_row_back(cheap: DynamoTables) -> None:
    c = await conversation(cheap, "alice")
    await cheap.append([group(message(c, 1))])
    assert await cheap.append([group(message(c, 1, message_id="x"))]) == [Refused({}, frozenset({1}))]
    assert await cheap.append([group(message(c, 2, message_id="x"))]) == [None]
    assert len(await log(cheap, c)) == 2


async def test_the_same_number_and_id_with_another_text_writes_nothing(cheap: DynamoTables) -> None:
    """Two nodes were given the same number for the same id, but not the same text; the first is between its puts."""
    c = await conversation(cheap, "alice")
    first, sent = put_entry(message(c, 1, "one", message_id="x"), Clock().now_ms())
    await cheap.store.write(sent)
    other = asyncio.ensure_future(cheap.append([group(message(c, 1, "two", message_id="x"))]))
    await cheap.store.write(first)
    assert await other == [Refused({0: Known(1, digest_of("one"))}, frozenset())]
    assert [entry.text for entry in await log(cheap, c)] == ["one"]
