"""The contracts of devices and pending deliveries on DynamoDB Local."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contracts.devices import DevicesContract
from tests.contracts.pending import PendingContract
from tests.dynamodb_local import DynamoLocal, fresh_prefix
from tests.stores.dynamo import Counts
from tidings.clock import Clock
from tidings.stores.dynamodb_devices import DynamoDevices
from tidings.stores.dynamodb_wire import open_wire, place_of
from tidings.stores.tables_dynamodb import DynamoTables, create_tables


@pytest.fixture
async def tables(dynamodb: DynamoLocal, counts: Counts) -> AsyncIterator[DynamoTables]:
    """Of its own for each test: expiring looks at every row there is.

    The rows of the contract are over since long; DynamoDB itself must not take them away meanwhile.
    """
    prefix = fresh_prefix()
    url = dynamodb.url(prefix)
    await create_tables(url)
    wire = open_wire(place_of(url), Clock(), lambda kind, units: None)
    off = {"AttributeName": "expires", "Enabled": False}
    change = {"TableName": f"{prefix}pending_deliveries", "TimeToLiveSpecification": off}
    await wire.call("UpdateTimeToLive", change)
    wire.close()
    async with counts.opened(url) as tables:
        yield tables


@pytest.fixture
def devices(tables: DynamoTables) -> DynamoDevices:
    return DynamoDevices(tables.store)


@pytest.fixture
def pending(devices: DynamoDevices) -> DynamoDevices:
    return devices


class TestDevices(DevicesContract): ...


class TestPending(PendingContract): ...
