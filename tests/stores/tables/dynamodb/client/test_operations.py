"""Operations: batches that are left unprocessed, transactions asked for twice, many at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.contracts import conversation, fresh, group, log, message
from tests.support.servers.dynamodb_tables import Counts, Once, faults, never_try_again, store_of
from tidings.errors import Throttled, Unavailable
from tidings.model import Head
from tidings.stores.tables.dynamodb.client.client import Canceled, ConditionFailed
from tidings.stores.tables.dynamodb.client.items import attributes, values
from tidings.stores.tables.dynamodb.client.operations import assign, delete, put, remove, update
from tidings.stores.tables.ports import Tables
from tidings_proof.world.dynamodb import DynamoLocal
from tidings_proof.world.dynamodb_shim import Faults


def test_an_update_sets_what_is_there_and_takes_away_what_is_not() -> None:
    assert assign({"a": 1, "b": None, "c": "x"}) == (
        "SET #a = :a, #c = :c REMOVE #b",
        {":a": {"N": "1"}, ":c": {"S": "x"}},
    )
    assert assign({"a": None}) == ("REMOVE #a", {})


def test_aliases_are_made_from_the_expressions() -> None:
    op = update("t", attributes(key="k"), "SET #name = :name", values(name="x"), "#role = :name")
    assert op.body["ExpressionAttributeNames"] == {"#name": "name", "#role": "role"}
    assert "ConditionExpression" not in delete("t", attributes(key="k")).body


async def test_a_batch_get_is_whole_whatever_is_left_unprocessed(
    dynamodb: DynamoLocal, dynamo: Tables, counts: Counts
) -> None:
    user_id = fresh("user")
    cs = [await conversation(dynamo, user_id) for _ in range(30)]
    counts.clear()
    with faults(dynamodb, Faults(seed=1, unprocessed=0.6)):
        assert set(await dynamo.inboxes.rows(user_id, cs)) == set(cs)
    assert counts.reads == {"conversations": 30}


async def test_more_than_a_hundred_keys_are_asked_for_in_pieces(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    dynamodb.shim.asked.clear()
    assert await dynamo.conversations.heads([f"none-{number}" for number in range(250)]) == {}
    assert dynamodb.shim.asked == {"BatchGetItem": 3}


async def test_a_batch_that_is_never_processed_is_throttled(
    dynamodb: DynamoLocal, dynamo: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_try_again(monkeypatch)
    with faults(dynamodb, Faults(seed=1, unprocessed=1.0)), pytest.raises(Throttled, match="unprocessed"):
        await dynamo.conversations.heads(["a"])


async def test_items_left_unprocessed_are_written_in_the_end(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    store, name = store_of(dynamo), fresh("key")
    items = [attributes(key=f"{name}.{number}", value="x") for number in range(60)]
    with faults(dynamodb, Faults(seed=1, unprocessed=0.5, lost=0.1)):
        await store.put_many("meta", items)
    keys = [attributes(key=f"{name}.{number}") for number in range(60)]
    assert len(await store.batch_get("meta", keys)) == 60
    with faults(dynamodb, Faults(seed=1, unprocessed=0.5, lost=0.1)):
        await store.delete_many("meta", keys)
    assert await store.batch_get("meta", keys) == []


async def test_writes_that_stay_unprocessed_are_ambiguous(
    dynamodb: DynamoLocal, dynamo: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_try_again(monkeypatch)
    with faults(dynamodb, Faults(seed=1, unprocessed=1.0)), pytest.raises(Unavailable) as said:
        await store_of(dynamo).put_many("meta", [attributes(key=fresh("key"), value="x") for _ in range(3)])
    assert said.value.is_ambiguous


@pytest.mark.parametrize("size", [2, 40])
async def test_a_transaction_whose_reply_was_lost_is_done_once(
    dynamodb: DynamoLocal, dynamo: Tables, size: int
) -> None:
    store, name = store_of(dynamo), fresh("key")
    keys = [attributes(key=f"{name}.{number}") for number in range(size)]
    ops = [put("meta", key, key | attributes(value="x"), "attribute_not_exists(#key)") for key in keys]
    for kind in ("lost", "error"):
        fault = Once(kind, "TransactWriteItems")
        with faults(dynamodb, fault):
            await store.transact(ops)
        assert fault.left == 0
        await store.delete_many("meta", keys)
    await store.transact(ops)
    with pytest.raises(Canceled) as canceled:
        await store.transact(ops)
    assert [reason.item for reason in canceled.value.reasons] == [key | attributes(value="x") for key in keys]


async def test_the_same_rows_may_be_written_again_after_they_were_deleted(dynamo: Tables) -> None:
    """A token that only depended on the content would answer for the first transaction, and write nothing."""
    c = await conversation(dynamo, "alice")
    one = group(message(c, 1))
    await dynamo.log.append([one])
    await dynamo.conversations.delete(c)
    await dynamo.conversations.create(Head(conversation_id=c, kind="group", created_ms=1), [], [])
    assert await dynamo.log.append([one]) == [None]
    assert len(await log(dynamo, c)) == 1


async def test_a_failed_condition_is_read_where_it_is_not_told(dynamo: Tables) -> None:
    key = attributes(key=fresh("key"))
    op = put("meta", key, key | attributes(value="x"), "attribute_not_exists(#key)")
    await store_of(dynamo).write(op)
    with pytest.raises(ConditionFailed) as failed:
        await store_of(dynamo).write(op)
    assert await store_of(dynamo).standing(op, failed.value) == key | attributes(value="x")


async def test_a_removal_whose_reply_was_lost_was_still_ours(dynamodb: DynamoLocal, dynamo: Tables) -> None:
    key = attributes(key=fresh("key"))
    await store_of(dynamo).write(put("meta", key, key | attributes(value="x")))
    op = delete("meta", key, "#value = :value", values(value="x"))
    with faults(dynamodb, Once("lost", "DeleteItem")):
        assert await remove(store_of(dynamo), op)
    assert not await remove(store_of(dynamo), op)


async def test_each_tries_everything_before_it_complains(dynamo: Tables) -> None:
    done: list[int] = []

    async def work(number: int) -> int:
        await asyncio.sleep(0)
        if number == 2:
            raise Throttled("two")
        done.append(number)
        return number

    assert await store_of(dynamo).each([0, 1], work) == [0, 1]
    with pytest.raises(Throttled, match="two"):
        await store_of(dynamo).each([1, 2, 3, 4], work)
    assert sorted(done) == [0, 1, 1, 3, 4]
