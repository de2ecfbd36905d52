"""Findings: their families, and how values are shown in them."""

from __future__ import annotations

from tidings.stores.findings import human_bytes, ok, quantile


def test_a_finding_knows_its_family() -> None:
    assert ok("keyspace.clock", "").family == "keyspace"


def test_quantiles_are_measured_values() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert quantile([7.0], 0.99) == 7.0


def test_sizes_are_told_in_the_nearest_unit() -> None:
    assert [human_bytes(n) for n in (0, 1023, 1024, 5 * 1024**3)] == ["0 bytes", "1023 bytes", "1.0 KiB", "5.0 GiB"]
    assert human_bytes(2 * 1024**4) == "2.0 TiB"
