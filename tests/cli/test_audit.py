"""`tidings audit`: the stream is shown, followed and counted again, beside a running node."""

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
    with NodeProcess(tmp_path_factory.mktemp("audit") / "data", {"TIDINGS_LIMITS_SEND": "3/60s"}) as node:
        yield node.start()


@pytest.fixture
def verbs(node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> Verbs:
    return Verbs(node, capsys)


def test_a_key_that_is_made_is_in_the_audit_without_the_key_itself(node: NodeProcess, verbs: Verbs) -> None:
    key = verbs.run("key", "create", "--name", "night shift", "--role", "readonly").strip()
    made = [one["event"] for one in verbs.entries() if one["event"]["class"] == "key.created"]
    assert [(one["by"], one["detail"]) for one in made] == [("command line", "readonly night shift")]
    assert key.startswith("tk_") and all(key not in str(one) for one in verbs.entries())


def test_the_audit_is_shown_followed_from_an_id_and_replayed(node: NodeProcess, verbs: Verbs) -> None:
    c = node.create_group(["carol", "bob"])
    assert sends(node, c, "carol", 6, "c").count(429) == 3
    node.rest("GET", "/v1/inbox", token="nonsense")
    deadline_s = time.monotonic() + 60
    while True:
        found = verbs.entries()
        mine = [one for one in found if one["event"]["user_id"] == "carol"]
        failed = [one for one in found if one["event"]["kind"] == "sign_in"]
        if sum(one["event"].get("count", 1) for one in mine) == 3 and failed:
            break
        assert time.monotonic() < deadline_s
    assert verbs.entries("--from", found[0]["id"]) == found[1:]
    assert "reject" in verbs.run("audit", "tail", "--count", "1000") and "carol" in verbs.run("audit", "tail")
    deadline_s = time.monotonic() + 60
    while (replayed := json.loads(verbs.run("audit", "replay", "--from", "0", "--json")))["entries"] < len(found):
        assert time.monotonic() < deadline_s
    assert replayed["minutes"] > 0 and replayed["left"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["audit", "replay"], "--from"),
        (["audit", "tail", "--count", "0"], "--count"),
        (
            ["audit", "tail", "--from", "yesterday"],
            "--from: 'yesterday' is not an audit id; an audit id has",
        ),
        (["audit", "replay", "--from", "0", "--to", ""], "bad value for --to"),
    ],
)
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and said in shown.err and shown.err.count("\n") == 1
