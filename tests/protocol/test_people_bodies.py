"""Quiet hours on the wire: a period that makes no sense is refused and named."""

from __future__ import annotations

import msgspec
import pytest

from tidings.errors import BadRequest
from tidings.protocol.people_bodies import QUIET_MAX, QuietBody, check_quiet, minute_of, time_of

NIGHT = {"days": [1, 7], "from": "22:00", "to": "07:05"}


def test_times_come_back_as_they_were() -> None:
    night = msgspec.convert(NIGHT, QuietBody)
    check_quiet([night])
    assert (minute_of(night.from_), minute_of(night.to), time_of(425)) == (1320, 425, "07:05")
    assert msgspec.to_builtins(night) == NIGHT


@pytest.mark.parametrize("bad", [{"days": []}, {"days": [0]}, {"days": [8]}, {"from": "24:00"}, {"to": "7:00"}])
def test_a_period_that_makes_no_sense_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        check_quiet([msgspec.convert(NIGHT | bad, QuietBody)])


def test_too_many_periods_are_refused() -> None:
    with pytest.raises(BadRequest):
        check_quiet([msgspec.convert(NIGHT, QuietBody)] * (QUIET_MAX + 1))


def test_an_unknown_field_of_a_period_is_refused_by_name() -> None:
    with pytest.raises(msgspec.ValidationError, match="until"):
        msgspec.convert(NIGHT | {"until": "08:00"}, QuietBody)
