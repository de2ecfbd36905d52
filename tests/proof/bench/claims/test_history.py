"""History: every reader reads every page, each from another place."""

from __future__ import annotations

import json

import pytest

from tidings_proof.bench.claims.history import LIMIT_ITEMS, Transport, checks_of, reader


@pytest.mark.parametrize("transport", ["ws", "http"])
def test_readers_have_the_same_pages_and_begin_elsewhere(transport: Transport) -> None:
    one, other = (reader(number, transport, 10 * LIMIT_ITEMS, 2) for number in range(2))
    assert sorted(one.requests) == sorted(other.requests) and one.requests[0] != other.requests[0]
    assert len(set(one.requests)) == 10 and one.token != other.token


def test_a_page_is_asked_for_in_the_words_of_the_protocol() -> None:
    first = json.loads(reader(0, "ws", 40, 1).requests[0])
    assert (first["type"], first["before_seq"], first["limit"]) == ("history", 41, LIMIT_ITEMS)


def test_rest_that_costs_much_more_than_the_socket_is_a_missed_target() -> None:
    per_s = {"ws": 3_000.0, "http": 3_000.0}
    near = {"ws": 200.0, "http": 250.0, "ws, alone": 500.0, "http, alone": 700.0}
    assert all(check.is_met for check in checks_of(near, per_s))
    far = {**near, "http": 281.0, "http, alone": 701.0}
    assert [check.is_met for check in checks_of(far, per_s)] == [True, True, False, True, False, False]
