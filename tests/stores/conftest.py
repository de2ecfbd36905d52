"""DynamoDB Local for the adapters that ask for it, with tables that tests share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.dynamodb_local import DynamoLocal, fresh_prefix
from tests.dynamodb_local import dynamodb as dynamodb
from tests.stores.dynamo import Counts
from tidings.stores.tables_dynamodb import DynamoTables, create_tables


@pytest.fixture(scope="session")
def dynamo_prefix(dynamodb: DynamoLocal) -> str:
    prefix = fresh_prefix()
    asyncio.run(create_tables(dynamodb.url(prefix)))
    return prefix


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
async def dynamo(dynamodb: DynamoLocal, dynamo_prefix: str, counts: Counts) -> AsyncIterator[DynamoTables]:
    """On the tables that all tests share."""
    async with counts.opened(dynamodb.url(dynamo_prefix)) as tables:
        yield tables


@pytest.fixture
async def cheap(dynamodb: DynamoLocal, dynamo_prefix: str, counts: Counts) -> AsyncIterator[DynamoTables]:
    """The same tables with `dedupe=cheap`."""
    async with counts.opened(dynamodb.url(dynamo_prefix, dedupe="cheap")) as tables:
        yield tables
