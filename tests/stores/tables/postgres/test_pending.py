"""The contract of pending deliveries on PostgreSQL."""

from __future__ import annotations

from tests.contracts.pending import PendingContract


class TestPending(PendingContract): ...
