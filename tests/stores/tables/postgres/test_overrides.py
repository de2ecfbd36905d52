"""The contract of rate overrides on PostgreSQL."""

from __future__ import annotations

from tests.contracts.overrides import OverridesContract


class TestOverrides(OverridesContract): ...
