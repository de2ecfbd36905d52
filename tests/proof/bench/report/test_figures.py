"""Percentiles and how figures are shown."""

from __future__ import annotations

from tidings_proof.bench.report.figures import percentile, percentiles, shown


def test_a_percentile_is_a_value_that_occurred() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(values, 1.0) == 100
    assert percentile([7.0], 0.99) == 7
    assert percentile([1.0, 2.0, 3.0], 0.5) == 2


def test_several_percentiles_are_the_same_as_each_alone() -> None:
    values = [3.0, 1.0, 2.0, 9.0, 4.0]
    assert percentiles(values, (0.0, 0.5, 0.95)) == [1.0, 3.0, 9.0]


def test_the_percentile_of_nothing_is_zero() -> None:
    assert percentile([], 0.5) == 0.0


def test_figures_are_shown_with_the_digits_that_mean_something() -> None:
    shapes = {12396.4: "12,396", 87.43: "87.4", 1.478: "1.48", 20.0: "20", 5_000: "5,000", "ws": "ws"}
    assert {value: shown(value) for value in shapes} == shapes
