"""The contract of records on PostgreSQL."""

from __future__ import annotations

from tests.contracts.records import RecordsContract


class TestRecords(RecordsContract): ...
