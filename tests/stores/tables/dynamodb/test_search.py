"""The contract of the search index, which is skipped, on DynamoDB Local."""

from __future__ import annotations

import pytest

from tests.contracts.search import SearchContract
from tidings.stores.tables.ports import Tables


@pytest.fixture
def tables(dynamo: Tables) -> Tables:
    return dynamo


class TestSearch(SearchContract): ...
