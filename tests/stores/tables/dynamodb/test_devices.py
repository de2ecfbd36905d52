"""The contracts of devices and pending deliveries on DynamoDB Local."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contracts.devices import DevicesContract
from tests.contracts.pending import PendingContract
from tests.support.servers.dynamodb_local import fresh_prefix
from tests.support.servers.dynamodb_tables import Counts
from tidings.clock import Clock
from tidings.stores.tables.dynamodb import adapter as dynamodb_adapter
from tidings.stores.tables.dynamodb.client.client import open_wire, place_of
from tidings.stores.tables.ports import Tables
from tidings_proof.world.dynamodb import DynamoLocal


@pytest.fixture
async def tables(dynamodb: DynamoLocal, counts: Counts) -> AsyncIterator[Tables]:
    """Of its own for each test: expiring looks at every row there is.

    The rows of the contract are over since long; DynamoDB itself must not take them away meanwhile.
    """
    prefix = fresh_prefix()
    url = dynamodb.url(prefix)
    await dynamodb_adapter.create(url, Clock())
    wire = open_wire(place_of(url), Clock(), lambda kind, units: None)
    off = {"AttributeName": "expires", "Enabled": False}
    change = {"TableName": f"{prefix}pending_deliveries", "TimeToLiveSpecification": off}
    await wire.call("UpdateTimeToLive", change)
    wire.close()
    async with counts.opened(url) as tables:
        yield tables


class TestDevices(DevicesContract): ...


class TestPending(PendingContract): ...
