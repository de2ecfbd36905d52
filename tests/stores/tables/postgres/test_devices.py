"""The contract of devices on PostgreSQL."""

from __future__ import annotations

from tests.contracts.devices import DevicesContract


class TestDevices(DevicesContract): ...
