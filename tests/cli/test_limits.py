"""`tidings limits`: beside a running node and without one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import Verbs, sends
from tests.support.nodes.node_process import NodeProcess
from tidings.cli.main import main


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("limits") / "data", {"TIDINGS_LIMITS_SEND": "3/60s"}) as node:
        yield node.start()


@pytest.fixture
def verbs(node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> Verbs:
    return Verbs(node, capsys)


def test_an_override_set_beside_a_running_node_holds_within_seconds(node: NodeProcess, verbs: Verbs) -> None:
    c = node.create_group(["alice", "bob"])
    assert sends(node, c, "alice", 5, "a") == [201, 201, 201, 429, 429]
    shown = verbs.run("limits", "set", "--user", "alice", "--class", "send", "--limit", "5/60s")
    assert shown.split() == ["user", "alice", "send", "5/60s"]
    deadline_s = time.monotonic() + 60
    while node.rest("GET", "/v1/rate_limits", user_id="alice")[1]["rate_limits"]["send"]["limit"] != 5:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert sends(node, c, "alice", 3, "b") == [201, 201, 429]
    [listed] = json.loads(verbs.run("limits", "list", "--json"))
    assert (listed["scope"], listed["name"], listed["class"], listed["limit"]) == ("user", "alice", "send", 5)
    verbs.run("limits", "clear", "--user", "alice", "--class", "send")
    assert verbs.run("limits", "list") == ""
    assert "no such override" in verbs.run("limits", "clear", "--user", "alice", "--class", "send", code=1)
    details = [one["event"].get("detail") for one in verbs.entries() if one["event"]["kind"] == "admin"]
    assert details == ["user alice send 5/60s", "user alice send"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["limits", "set", "--class", "send", "--limit", "1/1s"], "--user, --role and --key"),
        (["limits", "set", "--user", "a", "--key", "b", "--class", "send", "--limit", "1/1s"], "one of"),
        (["limits", "set", "--user", "a", "--class", "sned", "--limit", "1/1s"], "send"),
        (["limits", "set", "--user", "a", "--class", "send", "--limit", "many"], "--limit"),
        (["limits", "set", "--user", "a", "--class", "send"], "--limit"),
        (["limits"], "limits set"),
    ],
)
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and said in shown.err and shown.err.count("\n") == 1


def test_who_names_a_key_that_is_not_there_is_told(verbs: Verbs, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--key", "typo", "--class", "http")
    assert main(["limits", "set", *words, "--limit", "5/60s", "--data", str(verbs.data)]) == 0
    assert "No key is named 'typo' yet" in capsys.readouterr().err
    verbs.run("limits", "clear", *words)
