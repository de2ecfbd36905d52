"""Connections: figures become a verdict and a line of the table."""

from __future__ import annotations

from tidings_proof.bench.claims.connections import COLUMNS, checks_of, row

FIGURES = {
    "connections": 50,
    "bytes_per_connection": 12 * 1024,
    "node_rss_bytes": 2**26,
    "opened_per_s": 500,
    "open_cpu_us": 800.0,
    "return_cpu_us": 600.0,
    "node_cpu_share_at_rest": 0.01,
    "valkey_cpu_share_at_rest": 0.01,
}


def test_a_connection_that_takes_more_than_its_share_is_a_missed_target() -> None:
    assert [check.is_met for check in checks_of(FIGURES)] == [True] * 4
    heavy = {
        **FIGURES,
        "bytes_per_connection": 12 * 1024 + 1,
        "node_cpu_share_at_rest": 0.02,
        "open_cpu_us": 801.0,
        "return_cpu_us": 601.0,
    }
    assert [check.is_met for check in checks_of(heavy)] == [False] * 4


def test_the_table_has_a_figure_for_each_column() -> None:
    assert len(row(FIGURES)) == len(COLUMNS)
