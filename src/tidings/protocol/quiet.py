"""Quiet hours on the wire: the form of a period, and the checks that its struct cannot make."""

from __future__ import annotations

import re

import msgspec

from tidings.errors import BadRequest

QUIET_MAX = 14  # periods of a user: two for each day
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]\Z")


class QuietBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`days` on which it begins (1 is Monday). One that does not end later than it begins ends the next day."""

    days: list[int]
    from_: str = msgspec.field(name="from")  # 22:00
    to: str


def check_quiet(quiet: list[QuietBody]) -> None:
    """Raises BadRequest."""
    if len(quiet) > QUIET_MAX:
        raise BadRequest(f"`quiet` has at most {QUIET_MAX} periods")
    for one in quiet:
        if not one.days or not set(one.days) <= set(range(1, 8)):
            raise BadRequest("`days` of `quiet` are numbers from 1 (Monday) to 7")
        if not _TIME.match(one.from_) or not _TIME.match(one.to):
            raise BadRequest("`from` and `to` of `quiet` are times like 22:00")


def minute_of(time: str) -> int:
    """22:00 as minutes of the day."""
    hours, minutes = time.split(":")
    return int(hours) * 60 + int(minutes)


def time_of(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
