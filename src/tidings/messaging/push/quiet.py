"""Quiet hours: the time in which a user's devices make no sound, in the user's own time zone.

A message that comes in quiet hours changes the badge alone, unless it mentions the user and mentions may pass. When the
quiet hours are over, one summary says how much is unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from tidings.stores.tables.values import Preferences, Quiet

_CHAIN_MAX = 14  # periods that follow each other without a gap: two a day for a week


def zone_of(name: str) -> tzinfo | None:
    """Return a time zone by its name in the database of the system. None: there is no such zone."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def quiet_until(chosen: Preferences, now_ms: int) -> int | None:
    """Return when the quiet hours of this moment end, in ms. None: it is not quiet."""
    zone, end_ms = zone_of(chosen.time_zone) or UTC, now_ms
    for _ in range(_CHAIN_MAX if chosen.quiet else 0):
        later_ms = _end_of(chosen.quiet, zone, end_ms)
        if later_ms is None:
            break
        end_ms = later_ms
    return end_ms if end_ms > now_ms else None


def _end_of(quiet: Sequence[Quiet], zone: tzinfo, at_ms: int) -> int | None:
    """The latest end of the periods that this moment lies in. A period belongs to the day on which it begins."""
    today = datetime.fromtimestamp(at_ms / 1000, zone).date()
    ends = []
    for one in quiet:
        for day in (today - timedelta(days=1), today):
            last = day + timedelta(days=one.until <= one.since)
            begin_ms, end_ms = _ms(day, one.since, zone), _ms(last, one.until, zone)
            if day.isoweekday() in one.days and begin_ms <= at_ms < end_ms:
                ends.append(end_ms)
    return max(ends, default=None)


def _ms(day: date, minute: int, zone: tzinfo) -> int:
    at = datetime(day.year, day.month, day.day, minute // 60, minute % 60, tzinfo=zone)
    return int(at.timestamp() * 1000)
