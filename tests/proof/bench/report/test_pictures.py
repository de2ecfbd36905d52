"""Pictures: nothing is drawn where nothing can be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bench_figures import claim_result
from tidings_proof.bench.report import pictures


def test_one_server_alone_makes_no_picture(tmp_path: Path) -> None:
    assert pictures.send_picture(claim_result("send"), tmp_path) == []


def test_without_matplotlib_there_is_one_line_and_no_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pictures, "has_matplotlib", lambda: False)
    assert pictures.growth_pictures(claim_result("growth"), tmp_path) == []
    assert capsys.readouterr().err == "bench: no pictures without matplotlib, of the peers extra\n"


def test_a_picture_says_where_its_figures_are_from() -> None:
    found = claim_result("send")
    assert found.command in pictures.note_of(found) and found.commit in pictures.note_of(found)
