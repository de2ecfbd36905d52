"""Workers: a short run on one worker and on two."""

from __future__ import annotations

import pytest

from tests.support.nodes.worker_processes import needs_linux
from tidings_proof.bench import cli
from tidings_proof.bench.growing.workers import workers

pytestmark = needs_linux


def test_all_workers_are_parts_of_the_node() -> None:
    with workers(2) as server:
        assert len(server.parts["node"]) == 3, "the supervisor and its workers"
        assert len(server.parts["valkey"]) == 1


@pytest.mark.long
def test_a_short_run_has_the_share_of_the_generator() -> None:
    found = cli.run("workers", {"seconds": 0.5, "clients": 4, "rounds": 2})
    for name in ("1 workers", "2 workers"):
        assert [round_["units"] > 0 and round_["generator_share"] > 0 for round_ in found.figures[name]] == [True, True]
