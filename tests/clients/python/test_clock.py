from __future__ import annotations

import re

from tidings_client import Clock


def test_time_is_real_and_waiting_never_goes_back() -> None:
    clock = Clock()
    assert clock.now_ms() > 1_700_000_000_000
    assert clock.monotonic_s() <= clock.monotonic_s()


def test_randomness_is_an_id_or_a_fraction() -> None:
    clock = Clock()
    assert re.fullmatch(r"[0-9a-f]{32}", clock.random_id()) and clock.random_id() != clock.random_id()
    assert all(0 <= clock.random_fraction() < 1 for _ in range(100))
