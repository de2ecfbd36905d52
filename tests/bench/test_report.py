"""Rows of the README from result files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.common import Check, result, write
from bench.report import load, main, rows


def test_each_check_is_a_row_and_a_missed_target_says_so(tmp_path: Path) -> None:
    checks = [Check("CPU per message", 87.4, "<=", 220, "us"), Check("ratio", 3.2, ">=", 4, "x")]
    write(result("send", "a claim", {}, {}, checks), tmp_path / "send.json")
    assert rows(load(tmp_path)) == [
        "| send: CPU per message | 87.4 us | <= 220 | `python -m bench send` |",
        "| send: ratio | 3.20 x | >= 4, missed | `python -m bench send` |",
    ]


def test_the_report_names_commit_and_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = result("inbox", "a claim", {}, {}, [])
    write(found, tmp_path / "inbox.json")
    main([str(tmp_path)])
    assert f"Commit {found.commit}, {found.python}, {found.machine['cores']} cores" in capsys.readouterr().out


def test_an_empty_folder_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no results there"):
        main([str(tmp_path)])
