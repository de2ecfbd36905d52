"""`tidings limits` and `tidings audit`: beside a running node and without one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process import NodeProcess
from tidings.cli import main


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("limits") / "data", {"TIDINGS_LIMITS_SEND": "3/60s"}) as node:
        yield node.start()


class Verbs:
    """The command line on the node's stores, in this process: a process a verb would take a second each."""

    def __init__(self, node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> None:
        self._node = node
        self._capsys = capsys
        self.data = node.data

    def run(self, *words: str, code: int = 0) -> str:
        self._capsys.readouterr()
        assert main([*words, "--data", str(self._node.data)]) == code
        shown = self._capsys.readouterr()
        return shown.out if code == 0 else shown.err

    def entries(self, *words: str) -> list[dict[str, Any]]:
        lines = self.run("audit", "tail", "--json", "--count", "1000", *words).splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def verbs(node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> Verbs:
    return Verbs(node, capsys)


def sends(node: NodeProcess, c: str, user_id: str, count: int, prefix: str) -> list[int]:
    bodies = [{"message_id": f"{prefix}{n}", "text": "hi"} for n in range(count)]
    return [node.rest("POST", f"/v1/conversations/{c}/messages", body, user_id)[0] for body in bodies]


def test_an_override_set_beside_a_running_node_holds_within_seconds(node: NodeProcess, verbs: Verbs) -> None:
    c = node.create_group(["alice", "bob"])
    assert sends(node, c, "alice", 5, "a") == [201, 201, 201, 429, 429]
    shown = verbs.run("limits", "set", "--user", "alice", "--class", "send", "--limit", "5/60s")
    assert shown.split() == ["user", "alice", "send", "5/60s"]
    deadline_s = time.monotonic() + 6
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


def test_a_key_that_is_made_is_in_the_audit_without_the_key_itself(node: NodeProcess, verbs: Verbs) -> None:
    key = verbs.run("key", "create", "--name", "night shift", "--role", "readonly").strip()
    made = [one["event"] for one in verbs.entries() if one["event"]["class"] == "key.created"]
    assert [(one["by"], one["detail"]) for one in made] == [("command line", "readonly night shift")]
    assert key.startswith("tk_") and all(key not in str(one) for one in verbs.entries())


def test_the_audit_is_shown_followed_from_an_id_and_replayed(node: NodeProcess, verbs: Verbs) -> None:
    c = node.create_group(["carol", "bob"])
    assert sends(node, c, "carol", 6, "c").count(429) == 3
    node.rest("GET", "/v1/inbox", token="nonsense")
    deadline_s = time.monotonic() + 10
    while True:
        found = verbs.entries()
        mine = [one for one in found if one["event"]["user_id"] == "carol"]
        failed = [one for one in found if one["event"]["kind"] == "sign_in"]
        if sum(one["event"].get("count", 1) for one in mine) == 3 and failed:
            break
        assert time.monotonic() < deadline_s
    assert verbs.entries("--from", found[0]["id"]) == found[1:]
    assert "reject" in verbs.run("audit", "tail", "--count", "1000") and "carol" in verbs.run("audit", "tail")
    deadline_s = time.monotonic() + 10
    while (replayed := json.loads(verbs.run("audit", "replay", "--from", "0", "--json")))["entries"] < len(found):
        assert time.monotonic() < deadline_s
    assert replayed["minutes"] > 0 and replayed["left"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["limits", "set", "--class", "send", "--limit", "1/1s"], "--user, --role and --key"),
        (["limits", "set", "--user", "a", "--key", "b", "--class", "send", "--limit", "1/1s"], "one of"),
        (["limits", "set", "--user", "a", "--class", "sned", "--limit", "1/1s"], "send"),
        (["limits", "set", "--user", "a", "--class", "send", "--limit", "many"], "--limit"),
        (["limits", "set", "--user", "a", "--class", "send"], "--limit"),
        (["audit", "replay"], "--from"),
        (["audit", "tail", "--count", "0"], "--count"),
        (["audit", "tail", "--from", "yesterday"], "bad value for --from: 'yesterday' is none; an audit id is"),
        (["audit", "replay", "--from", "0", "--to", ""], "bad value for --to"),
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
    assert "There is no key named 'typo' yet" in capsys.readouterr().err
    verbs.run("limits", "clear", *words)
