"""The contract of statuses on SQLite."""

from __future__ import annotations

from tests.contracts.statuses import StatusesContract


class TestStatuses(StatusesContract): ...
