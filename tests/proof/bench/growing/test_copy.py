"""Copy: the tables go to PostgreSQL and back, and both ways are judged."""

from __future__ import annotations

import pytest

from tidings.stores.tables.copying import Copied
from tidings_proof.bench import cli
from tidings_proof.bench.growing.copy import Copy, checks_of


def test_each_way_must_be_fast_enough() -> None:
    done = Copied(is_equal=True, is_resumed=False, conversations=1, messages=40_000, different=[], tables=[])
    fast, slow = checks_of({"there": Copy(done, 1.0, 1.0), "back": Copy(done, 4.0, 1.0)})
    assert (fast.is_met, fast.value, slow.is_met, slow.value) == (True, 40_000, False, 10_000)


@pytest.mark.long
def test_a_short_run_copies_there_and_back() -> None:
    found = cli.run("copy", {"conversations": 3, "messages": 50})
    assert [row[1] for row in found.rows] == [150, 150]
