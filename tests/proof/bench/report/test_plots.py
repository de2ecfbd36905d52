"""Pictures of trials. What needs matplotlib, of the `peers` extra, says so when it is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bench_figures import trial_result
from tidings.config.values import SettingsError
from tidings_proof.bench.report import plots

needs_matplotlib = pytest.mark.skipif(not plots.has_matplotlib(), reason="matplotlib of the peers extra is missing")


def test_a_trial_has_a_panel_of_latencies_and_one_of_rates() -> None:
    latency, rate = plots.panels_of(trial_result())
    assert latency.lines[0].x[-1] == 99 and latency.lines[0].y[50] == 2.0
    assert (rate.lines[0].x, rate.lines[0].y) == ([1.0, 2.0], [480.0, 520.0])


def test_another_kind_of_file_is_refused_before_anything_runs() -> None:
    with pytest.raises(SettingsError, match=r"neither in \.png nor in \.svg"):
        plots.check_plot(Path("plot.gif"))


def test_a_missing_matplotlib_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "has_matplotlib", lambda: False)
    with pytest.raises(SettingsError, match=r"pip install 'tidings-proof\[peers\]'"):
        plots.check_plot(Path("plot.svg"))


@needs_matplotlib
def test_the_same_figures_give_the_same_picture(tmp_path: Path) -> None:
    found = trial_result()
    for name in ("one.svg", "two.svg"):
        plots.picture_of(found, tmp_path / name)
    text = (tmp_path / "one.svg").read_text("utf-8")
    assert text == (tmp_path / "two.svg").read_text("utf-8")
    assert "messages a second" in text and "<dc:date>" not in text


@needs_matplotlib
def test_a_png_is_a_png(tmp_path: Path) -> None:
    plots.picture_of(trial_result(), tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes()[:4] == b"\x89PNG"


@needs_matplotlib
def test_bars_stand_beside_each_other_with_their_figures(tmp_path: Path) -> None:
    bars = {"ours": {"closed": 90.0, "single": 200.0}, "theirs": {"closed": 500.0, "single": 700.0}}
    panel = plots.Panel(title="t", x_label="", y_label="us", lines=[], bars=bars)
    plots.draw([panel], tmp_path / "bars.svg", "", "note")
    text = (tmp_path / "bars.svg").read_text("utf-8")
    assert all(word in text for word in ("closed", "single", "ours", "theirs", ">500<", "note"))
