"""The contract of records on DynamoDB Local."""

from __future__ import annotations

import pytest

from tests.contracts.records import RecordsContract
from tidings.stores.tables.ports import Tables


@pytest.fixture
def tables(dynamo: Tables) -> Tables:
    return dynamo


class TestRecords(RecordsContract): ...
