"""Send: a server that was left out is not judged, and the ratio is of each load."""

from __future__ import annotations

import importlib.util

import pytest

from tests.support.bench_figures import measured
from tidings_proof.bench.claims.send import CLOSED, FIXED, SERVERS, checks_of, ratios_of, servers_of

OURS = {CLOSED: measured({"node": 0.1}), FIXED: measured({"node": 0.2})}
THEIRS = {CLOSED: measured({"node": 0.4}), FIXED: measured({"node": 0.5})}


def test_the_textbook_server_is_compared_where_it_was_measured() -> None:
    assert checks_of({"textbook": THEIRS}, 500.0) == []
    assert len(checks_of({"tidings": OURS}, 500.0)) == 3
    *_, ratio = checks_of({"tidings": OURS, "textbook": THEIRS}, 500.0)
    assert ratio.value == pytest.approx(4.0) and ratio.is_met
    assert ratios_of({"tidings": OURS, "textbook": THEIRS}) == {CLOSED: 4.0, FIXED: 2.5}


def test_without_its_libraries_the_textbook_server_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert servers_of(None) == ["tidings"] and "tidings-proof[peers]" in capsys.readouterr().err
    assert servers_of("textbook") == ["textbook"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert servers_of(None) == list(SERVERS)
