"""The table of trials agrees with the command line's words."""

from __future__ import annotations

import pytest

from tidings.benchmarks.progress import Quiet
from tidings.benchmarks.target import Target
from tidings.benchmarks.trials import Wanted
from tidings.benchmarks.trials_names import ABOUT, CLIENTS, OPTIONS
from tidings.benchmarks.trials_table import TRIALS, run_on


def test_every_name_of_the_command_line_is_a_trial() -> None:
    assert set(TRIALS) == set(ABOUT) == set(CLIENTS)
    assert set(OPTIONS) <= set(TRIALS)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_option_is_something_that_can_be_wanted(name: str) -> None:
    assert set(OPTIONS[name]) <= set(Wanted.__struct_fields__)


def test_a_trial_on_a_server_that_is_there_names_it(target: Target) -> None:
    found = run_on("connect", target, Wanted(seconds=0.2, clients=1), Quiet())
    assert (found.url, found.is_own_node, found.unit) == (target.url, False, "connect")
