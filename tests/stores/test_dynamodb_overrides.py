"""The contract of overrides on DynamoDB Local."""

from __future__ import annotations

import pytest

from tests.contracts.overrides import OverridesContract
from tidings.stores.dynamodb_overrides import DynamoOverrides
from tidings.stores.tables_dynamodb import DynamoTables


@pytest.fixture
def overrides(dynamo: DynamoTables) -> DynamoOverrides:
    return DynamoOverrides(dynamo.store)


class TestOverrides(OverridesContract): ...
