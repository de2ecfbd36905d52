"""Growth curves: what is judged, what is kept, and one small curve on a real node."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.bench_figures import claim_result
from tidings_proof.bench.claims.growth import Curve, figures_of, rise, up_to
from tidings_proof.bench.cli import run
from tidings_proof.bench.report.pictures import growth_pictures, send_picture
from tidings_proof.bench.report.plots import has_matplotlib

CURVE = Curve(
    title="A group",
    x_label="members",
    lines={"a page": {2: 100.0, 1_000: 110.0}, "a post": {2: 50.0, 1_000: 90.0}},
    flat={"a page": 1.3},
)
needs_matplotlib = pytest.mark.skipif(not has_matplotlib(), reason="matplotlib of the peers extra is missing")


def test_only_what_is_meant_to_be_flat_is_judged() -> None:
    (check,) = CURVE.checks()
    assert (check.what, check.is_met) == ("a page: 1,000 over 2 members", True)
    assert check.value == pytest.approx(1.1)
    steep = msgspec.structs.replace(CURVE, flat={"a post": 1.3})
    assert not steep.checks()[0].is_met


def test_one_point_is_no_curve_and_is_not_judged() -> None:
    assert msgspec.structs.replace(CURVE, lines={"a page": {2: 100.0}}).checks() == []


def test_sizes_can_be_kept_small_and_never_vanish() -> None:
    assert up_to((2, 10, 100), 10) == [2, 10]
    assert up_to((2, 10, 100), None) == [2, 10, 100]
    assert up_to((20, 200), 5) == [20]
    assert rise({1: 2.0, 4: 3.0, 2: 9.0}) == 1.5


@needs_matplotlib
def test_each_curve_becomes_a_picture_that_says_where_it_is_from(tmp_path: Path) -> None:
    found = claim_result("growth", figures={"members": figures_of(CURVE), "other": figures_of(CURVE)})
    files = growth_pictures(found, tmp_path)
    assert [file.name for file in files] == ["bench-growth-members.svg", "bench-growth-other.svg"]
    text = files[0].read_text("utf-8")
    assert all(word in text for word in ("members", "CPU us", "a page", "1,000", f"commit {found.commit}"))


@needs_matplotlib
def test_a_message_is_drawn_beside_the_textbooks(tmp_path: Path) -> None:
    loads = {"closed loop": {"cpu_us": 90.0}, "500/s": {"cpu_us": 900.0}}
    figures = {"textbook_over_tidings": {}, "tidings": loads, "textbook": loads}
    (file,) = send_picture(claim_result("send", figures=figures), tmp_path)
    assert "closed loop" in file.read_text("utf-8")
    assert send_picture(claim_result("send", figures={"tidings": loads}), tmp_path) == []


@pytest.mark.long
def test_a_small_curve_is_measured() -> None:
    found = run("growth", {"only": "members", "most": 10, "seconds": 0.5})
    lines = found.figures["members"]["lines"]
    assert [size for size, _ in lines["a page of 20"]] == [2, 10]
    assert all(us > 0 for points in lines.values() for _, us in points)
