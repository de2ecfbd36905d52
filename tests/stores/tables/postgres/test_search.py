"""The contract of the search index on PostgreSQL."""

from __future__ import annotations

from tests.contracts.search import SearchContract


class TestSearch(SearchContract): ...
