"""The bars that a terminal shows while a trial runs."""

from __future__ import annotations

import io

from rich.console import Console
from rich.progress import Progress

from tidings_proof.bench.load.plan import Progress as Step
from tidings_proof.bench.report.progress import Bars, Quiet, bars


def test_nobody_is_told_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with bars(Console(file=out)) as shown:
        assert isinstance(shown, Quiet)
        shown.preparing("a node")
        shown.progressed("send", Step("measuring", 5, 0.5))
    assert out.getvalue() == ""


def test_a_terminal_gets_bars() -> None:
    with bars(Console(file=io.StringIO(), force_terminal=True)) as shown:
        assert isinstance(shown, Bars)


def test_each_run_has_a_bar_that_follows_it() -> None:
    screen = Progress("{task.description}", console=Console(file=io.StringIO()))
    shown = Bars(screen)
    shown.preparing("tokens")
    assert screen.tasks[0].description == "preparing tokens"
    shown.progressed("hot", Step("measuring", 1_200, 0.5))
    shown.progressed("hot", Step("measuring", 2_400, 0.75))
    shown.progressed("cold", Step("opening"))
    assert [task.visible for task in screen.tasks] == [False, True, True]
    hot, cold = screen.tasks[1:]
    assert (hot.description, hot.completed, hot.total, hot.fields["units"]) == ("hot: measuring", 0.75, 1.0, "2,400")
    assert (cold.description, cold.total) == ("cold: opening", None)
