"""DynamoDB Local for the adapters that ask for it, with tables that tests share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.servers.dynamodb_local import dynamodb as dynamodb
from tests.support.servers.dynamodb_local import fresh_prefix
from tests.support.servers.dynamodb_tables import Counts
from tidings.clock import Clock
from tidings.stores.tables.dynamodb import adapter as dynamodb_adapter
from tidings.stores.tables.ports import Tables
from tidings_proof.world.dynamodb import DynamoLocal


@pytest.fixture(scope="session")
def dynamo_prefix(dynamodb: DynamoLocal) -> str:
    prefix = fresh_prefix()
    asyncio.run(dynamodb_adapter.create(dynamodb.url(prefix), Clock()))
    return prefix


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
async def dynamo(dynamodb: DynamoLocal, dynamo_prefix: str, counts: Counts) -> AsyncIterator[Tables]:
    """On the tables that all tests share."""
    async with counts.opened(dynamodb.url(dynamo_prefix)) as tables:
        yield tables
