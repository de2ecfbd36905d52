"""The process that plays seeds: one line for each that went wrong, and one about the whole."""

from __future__ import annotations

import pytest

from tests.simulation.test_simulation import play


@pytest.mark.parametrize("options", [(), ("--losing",), ("--crash",), ("--odd", "evict")])
def test_seeds_of_each_kind_are_played(options: tuple[str, ...]) -> None:
    wrong, summary, story = play(3, 2, *options, "--story")
    assert (wrong, summary["played"], summary["wrong"]) == ([], 2, 0) and "peace" in story


def test_a_seed_that_goes_wrong_is_named_and_ends_the_search() -> None:
    wrong, summary, _ = play(0, 100, "--odd", "strangers", "--mutation", "everybody_may_send", "--until-found")
    assert wrong[0]["seed"] == summary["played"] - 1 and wrong[0]["faults"]
