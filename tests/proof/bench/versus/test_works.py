"""Works: every figure of a work belongs to a row of the table."""

from __future__ import annotations

import pytest

from tidings_proof.bench.target.own_node import folder, own_node
from tidings_proof.bench.target.target import Target
from tidings_proof.bench.versus import cli
from tidings_proof.bench.versus.rivals import QUICK, Server
from tidings_proof.bench.versus.works import WORKS, prepared, rows_of


def test_the_rows_of_the_table_name_their_sizes() -> None:
    rows = rows_of(QUICK)
    assert rows["fanout_20"] == "fan-out, 20 members online: us a delivery"
    assert rows["inbox"].startswith("inbox of 30 ")
    assert cli.WORKS == WORKS


@pytest.mark.parametrize("work", ["history", "inbox"])
def test_a_server_without_a_store_has_nothing_to_read(work: str, target: Target) -> None:
    assert prepared(work, Server(target, QUICK)) == []


@pytest.mark.long
def test_a_post_is_divided_by_those_who_hear_it() -> None:
    with folder() as data, own_node(data) as node:
        turn = prepared("fanout", Server(node, QUICK))[0]
        assert turn(0)["fanout_10"] > 0
