"""`tidings export`, `tidings import` and `tidings user`: data that leaves, comes back, and ends."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import Verbs, complaint
from tests.support.nodes.node_process import NodeProcess


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("user") / "data") as node:
        yield node.start()


def test_what_is_exported_beside_a_running_node_can_be_imported(
    node: NodeProcess, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    verbs = Verbs(node, capsys)
    c = node.create_group(["ann", "ben"])
    assert node.rest("POST", f"/v1/conversations/{c}/messages", {"text": "words of ann"}, "ann")[0] == 201
    assert "bytes are in out" in verbs.run("export", "--conversation", c, "--to", "out")
    assert "words of ann" in (tmp_path / "out" / "export.jsonl").read_text("utf-8")
    done = json.loads(verbs.run("import", "jsonl", "out", "--dry-run", "--json"))
    assert (done["conversations"], done["messages"]) == (1, 1)
    assert json.loads(verbs.run("user", "export", "--user", "ann", "--to", "ann.zip", "--json"))["bytes"] > 0
    assert zipfile.is_zipfile(tmp_path / "ann.zip")
    assert "--to" in complaint(capsys, "export", "--all")
    assert "not allowed with" in complaint(capsys, "export", "--all", "--user", "ann", "--to", "x")


def test_a_person_is_erased_beside_a_running_node(node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> None:
    verbs = Verbs(node, capsys)
    c = node.create_group(["alice", "bob"])
    body = {"message_id": "m1", "text": "words of bob"}
    assert node.rest("POST", f"/v1/conversations/{c}/messages", body, "bob")[0] == 201
    done = json.loads(verbs.run("user", "erase", "--user", "bob", "--json"))
    assert (done["user_id"], done["messages"]) == ("bob", 1) and done["remains"]
    page = node.rest("GET", f"/v1/conversations/{c}/messages", user_id="alice")[1]["messages"]
    assert all(message["text"] is None for message in page)
    assert "wrong: none" in verbs.run("unread", "verify")


def test_a_bad_user_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--user" in complaint(capsys, "user", "erase", "--user", "a b")
