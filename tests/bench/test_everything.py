"""Running all benchmarks: each is there, one that fails stops no other, and the summary names what it must."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import everything
from bench.common import Check, result, write
from bench.everything import NAMES, QUICK, run_all, summary

GOOD, BAD = Check("CPU", 1.0, "<=", 2, "us"), Check("rate", 1.0, ">=", 2)


def test_every_benchmark_can_be_run_and_has_small_sizes() -> None:
    assert set(QUICK) == set(NAMES)
    assert all(callable(import_module(f"bench.{name}").main) for name in NAMES)


def test_the_summary_counts_what_was_met_and_names_what_was_missed() -> None:
    met, missed = summary([result("send", "a claim", {}, {}, [GOOD, BAD])])
    assert "1 of 2 targets" in met
    assert "send: rate: 1 (target >= 2)" in missed


def a_module(fault: BaseException | None = None) -> SimpleNamespace:
    def main(words: list[str]) -> None:
        if fault is not None:
            raise fault
        out = Path(words[words.index("--out") + 1])
        write(result(out.stem, "a claim", {}, {}, [GOOD]), out)

    return SimpleNamespace(main=main)


def test_one_that_fails_is_named_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    modules = {"bench.send": a_module(SystemExit("a wrong answer"))}
    monkeypatch.setattr(everything, "import_module", lambda name: modules.get(name, a_module()))
    assert run_all(["--out", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "send: a wrong answer" in said and f"{len(NAMES) - 1} of {len(NAMES) - 1} targets" in said


def test_what_would_begin_too_late_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(everything, "import_module", lambda name: a_module())
    assert run_all(["--out", str(tmp_path), "--minutes", "-1"]) == 1
    assert "growth: left out" in capsys.readouterr().out
