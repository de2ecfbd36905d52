"""Stores: the figures of rounds, and a short run on both adapters."""

from __future__ import annotations

import pytest

from tests.support.bench_figures import measured
from tidings_proof.bench import cli
from tidings_proof.bench.growing.stores import checks_of, middle


def test_the_figure_is_the_median_of_the_rounds() -> None:
    rounds = [measured({"node": cpu_s}) for cpu_s in (0.9, 0.2, 0.31)]
    assert middle(rounds).cpu_us == pytest.approx(310)
    message, page = checks_of({"message, PostgreSQL": rounds, "page, PostgreSQL": rounds})
    assert (message.is_met, page.is_met) == (False, True)


def test_sqlite_alone_has_no_targets() -> None:
    assert checks_of({"message, SQLite": [measured()], "page, SQLite": [measured()]}) == []


@pytest.mark.long
def test_a_short_run_counts_the_processes_of_postgresql() -> None:
    found = cli.run("stores", {"seconds": 0.5, "clients": 4, "messages": 100, "rounds": 1})
    for what in ("message", "page"):
        (plain,), (other,) = found.figures[f"{what}, SQLite"], found.figures[f"{what}, PostgreSQL"]
        assert plain["postgresql_cpu_us"] == 0 and other["postgresql_cpu_us"] > 0
