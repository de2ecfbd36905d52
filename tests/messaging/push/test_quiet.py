"""Quiet hours are the user's own, by the clock on the wall where the user is."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tidings.messaging.push.quiet import quiet_until, zone_of
from tidings.stores.tables.values import Preferences, Quiet

ATHENS = ZoneInfo("Europe/Athens")
NIGHTS = Preferences(time_zone="Europe/Athens", quiet=(Quiet((1, 2, 3, 4, 5), 22 * 60, 7 * 60),))


def ms(text: str, zone: ZoneInfo = ATHENS) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-11-16T21:59", None),  # Monday
        ("2026-11-16T22:00", "2026-11-17T07:00"),
        ("2026-11-17T06:59", "2026-11-17T07:00"),
        ("2026-11-17T07:00", None),
        ("2026-11-16T03:00", None),  # the night began on Sunday
        ("2026-11-21T03:00", "2026-11-21T07:00"),  # the night began on Friday
        ("2026-11-21T23:00", None),
    ],
)
def test_a_night_belongs_to_the_day_on_which_it_begins(now: str, until: str | None) -> None:
    assert quiet_until(NIGHTS, ms(now)) == (None if until is None else ms(until))


def test_periods_that_follow_each_other_end_together() -> None:
    evening, morning = Quiet((1,), 20 * 60, 0), Quiet((2,), 0, 6 * 60)
    chosen = Preferences(time_zone="Europe/Athens", quiet=(evening, morning))
    assert quiet_until(chosen, ms("2026-11-16T21:00")) == ms("2026-11-17T06:00")


def test_quiet_at_all_times_has_an_end_to_look_again_at() -> None:
    always = Preferences(quiet=(Quiet((1, 2, 3, 4, 5, 6, 7), 0, 0),))
    assert (quiet_until(always, ms("2026-11-16T21:00")) or 0) > ms("2026-11-17T00:00")


def test_the_clocks_change_in_the_night() -> None:
    """In the night to 25 October 2026 an hour comes twice."""
    chosen = Preferences(time_zone="Europe/Athens", quiet=(Quiet((6,), 22 * 60, 7 * 60),))
    begin, end = ms("2026-10-24T22:00"), ms("2026-10-25T07:00")
    assert (quiet_until(chosen, begin), end - begin) == (end, 10 * 3_600_000)


def test_without_quiet_hours_it_is_never_quiet() -> None:
    assert quiet_until(Preferences(), ms("2026-11-16T23:00")) is None


@pytest.mark.parametrize("name", ["Europe", "Europe/Nowhere", "/etc/passwd", "../x", "", "\0", "x" * 500])
def test_a_zone_that_is_not_in_the_database_is_none(name: str) -> None:
    assert zone_of(name) is None and zone_of("UTC") is not None
