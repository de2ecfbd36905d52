"""The contract of statuses on PostgreSQL."""

from __future__ import annotations

from tests.contracts.statuses import StatusesContract


class TestStatuses(StatusesContract): ...
