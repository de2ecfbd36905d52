"""Inbox: users of each size, and a verdict about the largest and the dearest."""

from __future__ import annotations

from tidings_proof.bench.claims.inbox import FILTERS, checks_of, request_of, users_of


def test_users_of_different_sizes_are_different_people() -> None:
    assert not set(users_of(20)) & set(users_of(5_000))


def test_a_size_in_the_middle_may_be_the_one_that_is_too_dear() -> None:
    names = ("20", "200", "5000", "plain", *FILTERS)
    found = {name: {"cpu_us": 100.0, "rows_read": 20.0} for name in names}
    assert all(check.is_met for check in checks_of((20, 200, 5_000), found))
    found["200"]["cpu_us"] = 140.0
    assert [check.is_met for check in checks_of((20, 200, 5_000), found)] == [True, True, True, False, True]
    found["200"]["rows_read"] = 21.0
    assert not checks_of((20, 200, 5_000), found)[1].is_met


def test_a_filter_that_is_dearer_than_a_plain_page_is_named() -> None:
    found = {name: {"cpu_us": 100.0, "rows_read": 20.0} for name in ("20", "plain", *FILTERS)}
    found["muted"]["cpu_us"] = 130.0
    assert [(check.is_met, "muted" in check.what) for check in checks_of((20,), found)][-1] == (False, True)
    assert '"filter": "unread"' in request_of("unread") and "filter" not in request_of(None)
