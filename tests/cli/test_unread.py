"""`tidings unread`: counts are compared with the tables, and repaired."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.command_line import Verbs, complaint
from tests.support.nodes.node_process import NodeProcess


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("unread") / "data") as node:
        yield node.start()


def test_counts_that_differ_are_found_with_exit_code_1_and_repaired(
    node: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs = Verbs(node, capsys)
    c = node.create_group(["alice", "bob"])
    body = {"message_id": "m1", "text": "hi"}
    assert node.rest("POST", f"/v1/conversations/{c}/messages", body, "alice")[0] == 201
    assert node.rest("GET", "/v1/inbox", user_id="bob")[1]["total_unread"] == 1
    assert "wrong: none" in verbs.run("unread", "verify")
    with node.keyspace() as keyspace:
        keyspace.hset("mark:{bob}", ":unread", "7")
    assert "bob" in verbs.run("unread", "verify", code=1)
    assert json.loads(verbs.run("unread", "repair", "--user", "bob", "--json"))["wrong"]
    assert "wrong: none" in verbs.run("unread", "verify", "--user", "bob")


def test_a_bad_user_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--user" in complaint(capsys, "unread", "verify", "--user", "a:b")
