"""Rows of the README from result files."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.bench_figures import claim_result
from tidings.cli import main as cli
from tidings.config.values import SettingsError
from tidings_proof.bench.names import WITH_TARGETS
from tidings_proof.bench.report.report import BEGIN, END, HEADLINES, between, load, rows, sources
from tidings_proof.bench.results import Check, Result, write


def test_each_check_is_a_row_and_a_missed_target_says_so(tmp_path: Path) -> None:
    checks = [Check("CPU per message", 87.4, "<=", 220, "us"), Check("ratio", 3.2, ">=", 4, "x")]
    write(claim_result("send", *checks), tmp_path / "send.json")
    assert rows(load(tmp_path)) == [
        "| send: CPU per message | 87.4 us | <= 220 | `tidings bench send` |",
        "| send: ratio | 3.20 x | >= 4, missed | `tidings bench send` |",
    ]


def test_the_report_names_commit_and_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = claim_result("inbox")
    write(found, tmp_path / "inbox.json")
    assert cli.main(["bench", "report", str(tmp_path)]) == 0
    assert f"Commit {found.commit}, {found.python}, {found.machine['cores']} cores" in capsys.readouterr().out


CHECKS = [Check("CPU per message", 87.4, "<=", 220, "us"), Check("ratio", 3.2, ">=", 4, "x")]


def test_the_readme_has_the_headlines_and_the_page_has_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results"
    for name in ("send", "limiter"):
        write(claim_result(name, *CHECKS), results / f"{name}.json")
    (tmp_path / "docs" / "inside").mkdir(parents=True)
    for page in ("README.md", "docs/inside/benchmarks.md"):
        (tmp_path / page).write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):  # written again, the pages are the same
        assert cli.main(["bench", "report", str(results), "--write"]) == 0
        readme = (tmp_path / "README.md").read_text()
        page = (tmp_path / "docs" / "inside" / "benchmarks.md").read_text()
        assert readme.startswith("before\n") and readme.endswith("\nafter\n") and "old" not in readme
        assert (readme.count("| limiter: "), readme.count("| send: ")) == (1, 2)
        assert (page.count("| limiter: "), page.count("| send: ")) == (2, 2)
        assert readme.count("Commit ") == 1 and readme.count(BEGIN) == 1


def test_a_page_without_markers_is_left_alone_and_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"README\.md has no markers"):
        between("no markers here", ["a"], "README.md")


def test_results_of_several_commits_say_which_is_from_where() -> None:
    one: Result = msgspec.structs.replace(claim_result("send"), commit="a1")
    other = msgspec.structs.replace(one, name="inbox", commit="b2")
    first, second = sources([one, other])
    assert first.startswith("Commit a1,") and first.endswith(": send.")
    assert second.startswith("Commit b2,") and second.endswith(": inbox.")
    assert len(sources([one, one])) == 1


def test_the_headlines_name_results_that_exist() -> None:
    assert set(HEADLINES) <= set(WITH_TARGETS)
