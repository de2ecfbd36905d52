"""`tidings user erase`: a person is erased, and the certificate is printed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.command_line import Verbs, complaint
from tests.support.nodes.node_process import NodeProcess


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("user") / "data") as node:
        yield node.start()


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
