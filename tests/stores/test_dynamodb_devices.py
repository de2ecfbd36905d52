"""The contracts of devices and pending deliveries on DynamoDB Local."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contracts.devices import DevicesContract
from tests.contracts.pending import PendingContract
from tests.dynamodb_local import DynamoLocal, fresh_prefix
from tidings.clock import Clock
from tidings.stores.dynamodb_devices import DynamoDevices
from tidings.stores.tables_dynamodb import DynamoTables, create_tables, open_dynamodb


@pytest.fixture
async def tables(dynamodb: DynamoLocal) -> AsyncIterator[DynamoTables]:
    """Of its own for each test: expiring looks at every row there is."""
    url = dynamodb.url(fresh_prefix())
    await create_tables(url)
    nothing = lambda what, n: None  # noqa: E731
    tables = await open_dynamodb(url, count_read=nothing, count_write=nothing, count_units=nothing, clock=Clock())
    yield tables
    await tables.close()


@pytest.fixture
def devices(tables: DynamoTables) -> DynamoDevices:
    return DynamoDevices(tables.store)


@pytest.fixture
def pending(devices: DynamoDevices) -> DynamoDevices:
    return devices


class TestDevices(DevicesContract): ...


class TestPending(PendingContract): ...
