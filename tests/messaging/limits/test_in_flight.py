"""Requests under way are bounded for a user and for a node; sends are never refused for the requests of others."""

from __future__ import annotations

import pytest

from tidings.bounds import IN_FLIGHT_MAX, IN_FLIGHT_PER_USER_MAX
from tidings.errors import RateLimited
from tidings.messaging.limits.in_flight import InFlight


def test_a_user_has_so_many_under_way_and_others_have_theirs() -> None:
    in_flight = InFlight()
    for _ in range(IN_FLIGHT_PER_USER_MAX):
        in_flight.begin("read", "alice")
    with pytest.raises(RateLimited) as refused:
        in_flight.begin("read", "alice")
    assert refused.value.class_name == "in_flight" and refused.value.retry_after_ms
    in_flight.begin("read", "bob")
    in_flight.end("alice")
    in_flight.begin("read", "alice")


def test_a_node_has_so_many_under_way_and_typing_is_refused_first() -> None:
    in_flight = InFlight()
    for n in range(IN_FLIGHT_MAX // 2):
        in_flight.begin("read", f"u{n}")
    with pytest.raises(RateLimited):
        in_flight.begin("typing", "alice")
    for n in range(IN_FLIGHT_MAX // 2):
        in_flight.begin("http", f"v{n}")
    with pytest.raises(RateLimited):
        in_flight.begin("read", "alice")


def test_a_server_key_acts_for_many_and_counts_for_the_node_alone() -> None:
    in_flight = InFlight()
    for _ in range(2 * IN_FLIGHT_PER_USER_MAX):
        in_flight.begin("http", None)
    for _ in range(2 * IN_FLIGHT_PER_USER_MAX):
        in_flight.end(None)
    assert (in_flight._all, in_flight._of_user) == (0, {})


def test_what_has_ended_is_forgotten() -> None:
    in_flight = InFlight()
    for _ in range(3):
        in_flight.begin("read", "alice")
    for _ in range(3):
        in_flight.end("alice")
    assert (in_flight._all, in_flight._of_user) == (0, {})
