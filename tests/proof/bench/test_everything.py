"""Running all benchmarks: one that fails stops no other, and the summary names what it must."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bench_figures import claim_findings, claim_result
from tidings_proof.bench import cli
from tidings_proof.bench.everything import run_all, summary
from tidings_proof.bench.names import BENCHMARKS, WITH_TARGETS, Sizes
from tidings_proof.bench.results import Check, Findings, read

GOOD, BAD = Check("CPU", 1.0, "<=", 2, "us"), Check("rate", 1.0, ">=", 2)


def test_the_summary_counts_what_was_met_and_names_what_was_missed() -> None:
    met, missed = summary([claim_result("send", GOOD, BAD)])
    assert "1 of 2 targets" in met
    assert "send: rate: 1 (target >= 2)" in missed


def test_one_that_fails_is_named_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(name: str, given: Sizes) -> Findings:
        if name == "send":
            raise RuntimeError("a wrong answer")
        return claim_findings(GOOD)

    monkeypatch.setattr(cli, "run", run)
    assert run_all(tmp_path, is_quick=False, minutes=15) == 1
    output = capsys.readouterr().out
    assert "send: a wrong answer" in output and f"{len(WITH_TARGETS) - 1} of {len(WITH_TARGETS) - 1} targets" in output


def test_a_quick_run_has_the_small_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Sizes] = {}

    def run(name: str, sizes: Sizes) -> Findings:
        given[name] = sizes
        return claim_findings(GOOD)

    monkeypatch.setattr(cli, "run", run)
    assert run_all(tmp_path, is_quick=True, minutes=15) == 0
    assert given == {name: BENCHMARKS[name].quick for name in WITH_TARGETS}
    assert read(tmp_path / "history.json").command == "tidings bench history --seconds 0.5 --clients 2 --messages 100"


def test_what_would_begin_too_late_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "run", lambda name, given: claim_findings(GOOD))
    assert run_all(tmp_path, is_quick=False, minutes=-1) == 1
    assert "growth: left out" in capsys.readouterr().out
