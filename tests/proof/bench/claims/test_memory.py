"""The figures that the capacity model stands on can be had, and are not out of proportion."""

from __future__ import annotations

import pytest

from tidings_proof.bench.cli import run


@pytest.mark.long
def test_a_small_run_finds_every_kind_of_key() -> None:
    found = run("memory", {"most": 100})
    assert len(found.figures) == 14
    assert all(size > 0 for size in found.figures.values())
    assert found.figures["a place in an inbox of 100"] < 200
    assert found.figures["100 unread messages of one conversation"] < 100 * 100
    assert all(check.is_met for check in found.checks)
