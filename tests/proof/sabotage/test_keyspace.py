"""Plants of the index are each a mistake: they change the script or the step that they name."""

from __future__ import annotations

from tidings.stores.keyspace.scripts.messaging import SOURCES
from tidings_proof.sabotage.keyspace import COUNTS, MOVES


def test_the_lines_that_are_changed_are_in_the_script() -> None:
    source = SOURCES["inbox_index"]
    assert source.count(MOVES) == 1 and source.count(COUNTS) == 1
    assert "'GT'" in MOVES and "'GT'" not in MOVES.replace(" 'GT',", "")
