"""Inbox: users of each size, and a verdict about the largest and the dearest."""

from __future__ import annotations

from tidings_proof.bench.claims.inbox import checks_of, users_of


def test_users_of_different_sizes_are_different_people() -> None:
    assert not set(users_of(20)) & set(users_of(5_000))


def test_a_size_in_the_middle_may_be_the_one_that_is_too_dear() -> None:
    found = {str(size): {"cpu_us": 100.0, "rows_read": 20.0} for size in (20, 200, 5_000)}
    assert all(check.is_met for check in checks_of((20, 200, 5_000), found))
    found["200"]["cpu_us"] = 140.0
    assert [check.is_met for check in checks_of((20, 200, 5_000), found)] == [True, True, True, False]
    found["200"]["rows_read"] = 21.0
    assert not checks_of((20, 200, 5_000), found)[1].is_met
