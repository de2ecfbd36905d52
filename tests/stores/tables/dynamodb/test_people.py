"""The contract of blocks and preferences on DynamoDB Local."""

from __future__ import annotations

import pytest

from tests.contracts.people import PeopleContract
from tidings.stores.tables.ports import Tables


@pytest.fixture
def tables(dynamo: Tables) -> Tables:
    return dynamo


class TestPeople(PeopleContract): ...
