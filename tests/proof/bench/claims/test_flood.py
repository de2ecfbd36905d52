"""Flood: the verdict compares the two stretches, and the rejects with the audit."""

from __future__ import annotations

from tidings_proof.bench.claims.flood import checks_of


def test_others_who_wait_half_as_long_again_are_a_missed_target() -> None:
    figures = {"quiet": {"ack_p99_ms": 4.0}, "flood": {"ack_p99_ms": 6.0}, "flooder": {"refused": 7}, "audited": 7}
    assert [check.is_met for check in checks_of(figures)] == [True, True]
    figures["flood"] = {"ack_p99_ms": 6.1}
    assert [check.is_met for check in checks_of(figures)] == [False, True]
