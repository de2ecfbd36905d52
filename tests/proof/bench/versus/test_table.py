"""The table: figures with ratios, dashes for what a server does not have, and targets that were measured."""

from __future__ import annotations

from tidings_proof.bench.results import Findings, result_of
from tidings_proof.bench.versus import table
from tidings_proof.bench.versus.ours import OURS
from tidings_proof.bench.versus.rivals import Sizes
from tidings_proof.bench.versus.socketio import SOCKETIO
from tidings_proof.bench.versus.works import rows_of

FOUND = {
    "send": {"tidings": 150.0, "socketio": 60.0},
    "history": {"tidings": 300.0},
    "history_ws": {"tidings": 200.0},
    "fanout_1000": {"tidings": 10.0, "socketio": 20.0},
    "connect": {"tidings": 0.7},
}


def test_a_cell_has_the_figure_and_how_many_times_ours_it_is() -> None:
    assert table.rows(FOUND, [OURS, SOCKETIO], Sizes())[:2] == [
        ["1:1, saturated: us a message", "150", "60 (0.40x)"],
        ["history page of 20: us", "300", "-"],
    ]


def test_only_targets_whose_servers_were_measured_are_checked() -> None:
    checks = {check.what: check for check in table.checks(FOUND)}
    assert set(checks) == {
        "1:1, saturated: over Socket.IO",
        "history: REST over WebSocket",
        "fan-out, 1,000 members: over Socket.IO",
        "sign-in",
    }
    assert not checks["1:1, saturated: over Socket.IO"].is_met
    assert checks["fan-out, 1,000 members: over Socket.IO"].value == 0.5


def test_every_target_is_about_a_row() -> None:
    rows = rows_of(Sizes())
    places = {place[0] for _, one, other, _, _ in table._RATIOS for place in (one, other)}
    assert places | {row for _, row, _, _ in table._FIGURES} <= set(rows)


def test_a_page_gets_the_table_as_markdown() -> None:
    findings = Findings(claim="", settings={}, figures={}, columns=["", "Tidings"], rows=[["1:1", "150"]])
    assert table.markdown(result_of("versus", {}, findings)) == ["|  | Tidings |", "| --- | --- |", "| 1:1 | 150 |"]
