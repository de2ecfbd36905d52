"""`tidings torture` on the command line: its words, its mistakes, its verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import SECRET
from tidings.cli.main import _parse, main
from tidings_proof.faults.faults import FAULTS
from tidings_proof.sabotage.plants import PLANTS
from tidings_proof.torture import cli as cli_torture
from tidings_proof.world.world import STORES


def test_it_lists_what_it_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["torture", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["faults"].keys() == FAULTS.keys() and listed["plants"].keys() == PLANTS.keys()
    assert main(["torture", "--list"]) == 0
    assert "node-kill " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--faults", "node-kil"], "unknown 'node-kil'; did you mean node-kill?"),
        (["--plant", "no-hold"], "did you mean no-holds?"),
        (["--seconds", "soon"], "bad value for --seconds"),
        (["--rate", "0"], "bad value for --rate"),
        (["--at", "http://example.com:1"], "--at takes loopback"),
        (["--at", "http://127.0.0.1:9"], "--at needs --auth-secret"),
        (["--at", "http://127.0.0.1:9", "--auth-secret", SECRET, "--plant", "no-dedupe"], "--plant"),
        (["--stores", "floppy"], "floppy"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_AUTH_SECRET", SECRET)  # only flags count
    assert main(["torture", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1 and said in shown.err


def test_the_stores_of_a_settings_file_or_the_environment_are_never_met_by_accident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tidings.toml").write_text('keyspace = "redis://production:6379"\n')
    monkeypatch.setenv("TIDINGS_TABLES", "dynamodb://eu-west-1")
    settings = cli_torture._settings(_parse("torture", []))
    assert (settings.keyspace, settings.tables) == ("embedded", "sqlite")
    named = cli_torture._settings(_parse("torture", ["--keyspace", "redis://mine:6379"]))
    assert named.keyspace == "redis://mine:6379"


def test_the_stores_are_those_of_the_world() -> None:
    assert set(cli_torture.STORES) == set(STORES)


@pytest.mark.long
def test_a_run_ends_with_a_verdict_a_page_and_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "r.html"
    words = ["torture", "--seed", "3", "--seconds", "3", "--users", "4", "--rate", "25", "--report", str(page)]
    assert main([*words, "--faults", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["held"] is True and "<svg" in page.read_text()
    assert main([*words, "--faults", "none", "--plant", "open-door"]) == 1
    assert "BROKEN" in capsys.readouterr().out
