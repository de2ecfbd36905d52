"""Bounds: a limit is written as an operator writes it."""

from __future__ import annotations

from tidings import bounds
from tidings.bounds import Limit
from tidings.config.values import limit


def test_a_limit_reads_as_it_is_written() -> None:
    assert str(Limit(100, 60)) == "100/60s"
    assert limit(str(Limit(100, 60))) == Limit(100, 60)


def test_no_bound_is_negative() -> None:
    numbers = {name: value for name, value in vars(bounds).items() if name.isupper() and isinstance(value, int | float)}
    assert len(numbers) > 100 and [name for name, value in numbers.items() if value < 0] == []
