"""The tables are made once, and what differs is named."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.servers.dynamodb_local import fresh_prefix
from tidings.clock import Clock
from tidings.stores.tables.dynamodb import adapter as dynamodb_adapter
from tidings.stores.tables.dynamodb.client.client import open_wire, place_of
from tidings.stores.tables.dynamodb.schema import definitions
from tidings_proof.world.dynamodb import DynamoLocal

ROOT = Path(__file__).resolve().parents[4]


async def test_what_is_missing_is_made_and_nothing_is_made_twice(dynamodb: DynamoLocal) -> None:
    prefix = fresh_prefix()
    url = dynamodb.url(prefix)
    names = [prefix + each.name for each in definitions()]
    assert await dynamodb_adapter.check(url, Clock()) == [f"{name}: missing" for name in names]
    assert await dynamodb_adapter.create(url, Clock()) == names
    assert await dynamodb_adapter.check(url, Clock()) == []
    assert await dynamodb_adapter.create(url, Clock()) == []


async def test_who_finds_a_table_made_meanwhile_goes_on(dynamodb: DynamoLocal) -> None:
    url = dynamodb.url(fresh_prefix())
    await asyncio.gather(*(dynamodb_adapter.create(url, Clock()) for _ in range(2)))
    assert await dynamodb_adapter.check(url, Clock()) == []


async def test_every_difference_is_named(dynamodb: DynamoLocal) -> None:
    prefix = fresh_prefix()
    url = dynamodb.url(prefix)
    wire = open_wire(place_of(url), Clock(), lambda kind, units: None)
    await wire.call(
        "CreateTable",
        {
            "TableName": f"{prefix}messages",
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "conversation_id", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "conversation_id", "KeyType": "HASH"}],
        },
    )
    attributes = [{"AttributeName": name, "AttributeType": "S"} for name in ("user_id", "conversation_id")]
    keys = [{"AttributeName": "user_id", "KeyType": "HASH"}, {"AttributeName": "conversation_id", "KeyType": "RANGE"}]
    await wire.call(
        "CreateTable",
        {
            "TableName": f"{prefix}conversations",
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": attributes,
            "KeySchema": keys,
        },
    )
    wire.close()
    await dynamodb_adapter.create(url, Clock())
    assert await dynamodb_adapter.check(url, Clock()) == [
        f"{prefix}messages: key is conversation_id S, not conversation_id S, seq_no N",
        f"{prefix}conversations: index by_user is missing, not shard N, user_id S KEYS_ONLY",
    ]


async def test_a_table_whose_rows_do_not_expire_is_noticed_and_put_right(dynamodb: DynamoLocal) -> None:
    prefix = fresh_prefix()
    url = dynamodb.url(prefix)
    await dynamodb_adapter.create(url, Clock())
    wire = open_wire(place_of(url), Clock(), lambda kind, units: None)
    off = {"AttributeName": "expires", "Enabled": False}
    await wire.call("UpdateTimeToLive", {"TableName": f"{prefix}sent", "TimeToLiveSpecification": off})
    wire.close()
    assert await dynamodb_adapter.check(url, Clock()) == [f"{prefix}sent: time to live is off, not expires"]
    await dynamodb_adapter.create(url, Clock())
    assert await dynamodb_adapter.check(url, Clock()) == []


def test_operators_find_the_same_definitions_in_deploy() -> None:
    source = ROOT / "src" / "tidings" / "stores" / "tables" / "dynamodb" / "tables.json"
    assert (ROOT / "deploy" / "dynamodb.json").read_text() == source.read_text()
    assert all(each.table["BillingMode"] == "PAY_PER_REQUEST" for each in definitions())
