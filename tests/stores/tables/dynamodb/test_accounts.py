"""Accounts when changes race, and the epoch of new tables."""

from __future__ import annotations

import asyncio

from tests.contracts import fresh
from tests.support.servers.dynamodb_local import fresh_prefix
from tests.support.servers.dynamodb_tables import Counts, Once, faults
from tidings.clock import Clock
from tidings.model import User
from tidings.stores.tables.dynamodb import adapter as dynamodb_adapter
from tidings.stores.tables.ports import Tables
from tidings_proof.world.dynamodb import DynamoLocal


async def test_a_revocation_that_races_a_new_name_stays(dynamo: Tables) -> None:
    user_id = fresh("user")
    users = [User(user_id=user_id, name="Ann", tokens_valid_after=after) for after in (0, 50, 20, 0)]
    await asyncio.gather(*map(dynamo.accounts.put_user, users))
    assert await dynamo.accounts.user(user_id) == User(user_id=user_id, name="Ann", tokens_valid_after=50)


async def test_many_who_open_new_tables_at_once_agree_on_the_epoch(dynamodb: DynamoLocal, counts: Counts) -> None:
    url = dynamodb.url(fresh_prefix())
    await dynamodb_adapter.create(url, Clock())
    with faults(dynamodb, Once("lost", "PutItem", times=2)):
        stores = await asyncio.gather(*(counts.open(url) for _ in range(5)))
    assert len({await store.accounts.store_epoch() for store in stores}) == 1
    for store in stores:
        await store.close()
