"""The contract of whole tables on PostgreSQL."""

from __future__ import annotations

from tests.contracts.whole import WholeContract


class TestWhole(WholeContract): ...
