"""`tidings bench versus`: its mistakes, and a tiny run of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidings.cli import main as cli
from tidings_proof.bench.versus.cli import RIVALS
from tidings_proof.bench.versus.everyone import EVERYONE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "send,nothing"), "bad value for --only: 'nothing' is none of send, rate, history"),
        (("--rivals", "others"), "bad value for --rivals"),
        (("--rounds", "0"), "bad value for --rounds"),
        (("--seconds", "0"), "bad value for --seconds"),
        (("--picture", "a.gif"), "a.gif does not end in .svg"),
        (("--out", "."), "--out"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_runs(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "versus", *words]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_the_command_line_knows_every_rival() -> None:
    assert {*RIVALS, "tidings"} == {rival.key for rival in EVERYONE}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_tiny_run_prints_the_table_and_draws_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--quick", "--only", "send", "--rivals", "textbook", "--rounds", "1", "--picture", "v.svg", "--json")
    assert cli.main(["bench", "versus", *words]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["figures"]["send"]["tidings"]["median"] > 0
    is_there = "textbook" in found["settings"]["servers"]
    assert is_there or "FastAPI + Valkey + SQLite is left out: no " in said.err
    assert found["checks"] == [], "a quick run says nothing about targets"
    assert [file.name for file in here.iterdir()] == ["v.svg"]


@pytest.mark.long
def test_a_quick_run_has_every_work_and_says_what_each_server_stores(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "versus", "--quick", "--rounds", "1", "--out", "v.json"]) == 0
    found = json.loads((here / "v.json").read_text("utf-8"))
    assert set(found["figures"]) == set(found["settings"]["rows"])
    assert "Tidings: stores each message" in capsys.readouterr().out
