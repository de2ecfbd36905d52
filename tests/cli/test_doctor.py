"""`tidings doctor` as an operator runs it: the exit code, the fix under each finding, JSON for programs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.doctor_targets import SECRET, seed_members, valkey
from tests.support.nodes.node_process import NodeProcess
from tidings.cli.doctor import _print
from tidings.cli.main import main
from tidings.operators.doctor.report import Report
from tidings.stores.findings import ok

SETTINGS = ("--auth-secret", SECRET, "--data", "d")


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TIDINGS_")]:
        monkeypatch.delenv(name)


def test_a_fresh_folder_is_fine_and_stays_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *SETTINGS]) == 0
    shown = capsys.readouterr().out
    assert "0 wrong" in shown and "fix:" in shown  # the secret is on the command line
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_is_printed_with_its_fix_and_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with valkey(tmp_path, "--appendonly", "no", "--slowlog-log-slower-than", "0") as patient:
        patient.ask_all([["KEYS", "*"], ["CONFIG", "SET", "slowlog-log-slower-than", "10000000"]])
        seed_members(patient, "unread:{ann}:c1", 200_000)
        assert main(["doctor", *SETTINGS, "--keyspace", patient.url]) == 1
    lines = capsys.readouterr().out.splitlines()
    for name, fix in {
        "keyspace.persistence": "CONFIG SET appendonly yes",
        "keyspace.walks": "use SCAN",
        "keyspace.big": "UNLINK",
    }.items():
        at = next(n for n, line in enumerate(lines) if line.startswith("WRONG") and name in line)
        assert "fix: " in lines[at + 1] and fix in lines[at + 1]
    assert any(line.startswith("  unread ") and "skiplist:1" in line for line in lines)
    assert any(line.startswith("  biggest: unread:{ann}:c1 (unread)") and "NOT NORMAL" in line for line in lines)


def test_json_holds_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with valkey(tmp_path, "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru") as patient:
        assert main(["doctor", "--json", "--budget", "5s", *SETTINGS, "--keyspace", patient.url]) == 1
    report = json.loads(capsys.readouterr().out)
    wrong = {finding["name"]: finding["fix"] for finding in report["findings"] if finding["level"] == "wrong"}
    assert report["is_healthy"] is False and list(wrong) == ["keyspace.eviction"]
    assert report["keyspace"][0]["keys_total"] == 0


def test_settings_that_cannot_be_read_are_the_finding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_LIMIT_SEND", "1/1s")
    assert main(["doctor"]) == 1
    assert "did you mean TIDINGS_LIMITS_SEND" in capsys.readouterr().out


def test_a_bad_budget_is_a_mistake_of_the_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--budget", "soon"]) == 2
    assert "--budget" in capsys.readouterr().err


def test_it_looks_at_a_running_node_without_disturbing_it(tmp_path: Path) -> None:
    data = tmp_path / "n"
    data.mkdir(mode=0o700)
    with NodeProcess(data, {"TIDINGS_AUTH_SECRET": SECRET}) as node:
        node.start()
        seen = node.tidings("doctor", "--budget", "0")
        assert seen.returncode == 0, seen.stdout + seen.stderr
        assert "AOF is on" in seen.stdout and "SQLite can be written" in seen.stdout
        node.check_alive()


def test_of_several_servers_each_finding_says_whose_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    fine = [ok("keyspace.persistence", "AOF is on", where) for where in ("redis://a:1", "redis://b:1")]
    _print(Report(findings=tuple(fine)))
    _print(Report(findings=(fine[0],)))
    assert capsys.readouterr().out.count("AOF is on [redis://a:1]") == 1
