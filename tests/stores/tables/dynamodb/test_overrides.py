"""The contract of overrides on DynamoDB Local."""

from __future__ import annotations

import pytest

from tests.contracts.overrides import OverridesContract
from tidings.stores.tables.ports import Tables


@pytest.fixture
def tables(dynamo: Tables) -> Tables:
    return dynamo


class TestOverrides(OverridesContract): ...
