"""The contract of whole tables on DynamoDB Local."""

from __future__ import annotations

import pytest

from tests.contracts.whole import WholeContract
from tidings.stores.tables.ports import Tables


@pytest.fixture
def tables(dynamo: Tables) -> Tables:
    return dynamo


class TestWhole(WholeContract):
    small_step = 5  # all suites share these tables, and each step is a request
