"""`tidings unread` and `tidings search`: counts are compared and repaired, and the index is made from the log."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import Verbs, complaint
from tests.support.nodes.node_process import NodeProcess
from tidings.cli.indexes import _index_all
from tidings.config.settings import Settings
from tidings.messaging.search.search import Question
from tidings.model import Content
from tidings.node import graph


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
    assert "--user" in complaint(capsys, "unread", "verify", "--user", "a b")


async def test_the_index_is_made_anew(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with graph.open_core(settings) as core:
        view, _ = await core.directory.create("alice", kind="group", members=["bob"], name="g")
        await core.sends.send("alice", view.head.conversation_id, "m1", Content("hello"), None)
        assert await _index_all(core) == (1, 1)
        await core.searching.indexer.follow()  # the node itself waits with the message for two seconds
        found = await core.searching.search.find("bob", Question(q="hello"))
        assert len(found.hits) == 1 and found.is_complete
        without = dataclasses.replace(core, tables=dataclasses.replace(core.tables, search=None))
        assert await _index_all(without) == (0, 0)
