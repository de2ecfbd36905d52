"""Backup and restore as docs/operations.md tells an operator to do it, on a node that is in use."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client import Client
from tests.crowd import read_log
from tests.dynamodb_local import DynamoLocal, fresh_prefix
from tests.dynamodb_local import dynamodb as dynamodb
from tests.process import NodeProcess
from tests.valkey import eventually
from tidings import cli
from tidings.stores.keyspace_folder import FOLDER_NAME
from tidings.stores.tables_dynamodb import create_tables


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data") as node:
        yield node.start()


async def connected(node: NodeProcess, user_id: str, **fields: object) -> Client:
    return await Client(node.port, node.token(user_id)).connect(**fields)


def done(node: NodeProcess, *words: str) -> Any:
    answer = node.tidings(*words, "--json")
    assert answer.returncode == 0, answer
    return json.loads(answer.stdout)


def put_back(node: NodeProcess, copy: Path) -> None:
    """The steps of docs/operations.md, in their order: nodes are stopped, then the tables, then the keyspace."""
    for name in ("tidings.db-wal", "tidings.db-shm"):
        (node.data / name).unlink(missing_ok=True)
    shutil.copy(copy, node.data / "tidings.db")
    shutil.rmtree(node.data / FOLDER_NAME)


async def test_a_node_goes_on_from_its_backup_and_clients_are_told(node: NodeProcess, tmp_path: Path) -> None:
    c = node.create_group(["alice", "bob"])
    alice = await connected(node, "alice")
    asked = [alice.ask("message.send", conversation_id=c, message_id=f"m{n}", text=f"text {n}") for n in range(300)]
    await eventually(lambda: asked[50].done())
    acknowledged = [future.result()["seq"] for future in asked if future.done()]
    copy = tmp_path / "copy.db"
    report = await asyncio.to_thread(done, node, "tables", "backup", "--to", str(copy))
    assert report["bytes"] == copy.stat().st_size
    await asyncio.gather(*asked)
    last = await alice.say(c, "after", "said after the backup")
    before = alice.hello["store_epoch"]
    await alice.close()
    node.stop()

    put_back(node, copy)
    restored = done(node, "tables", "restored")
    node.start()
    bob = await connected(node, "bob", resume={c: last["seq"]})
    assert bob.hello["store_epoch"] == restored["store_epoch"] != before
    log = await read_log(bob, c)
    assert len(log) >= len(acknowledged), "what was acknowledged before the backup began is in it"
    assert [entry["message_id"] for entry in log] == [f"m{n}" for n in range(len(log))]
    if len(log) < last["seq"]:
        assert (await bob.event(lambda frame: frame["type"] == "resumed"))["reset"] is True
    again = await connected(node, "alice")
    said = await again.say(c, "after", "said after the backup")
    assert (said["seq"], said["duplicate"]) == (len(log) + 1, False)
    assert (await bob.request("inbox"))["total_unread"] == len(log) + 1
    assert done(node, "unread", "verify")["wrong"] == []
    await again.close()
    await bob.close()


def test_tables_that_a_node_uses_are_not_marked(node: NodeProcess) -> None:
    before = done(node, "tables", "check")["store_epoch"]
    refused = node.tidings("tables", "restored")
    assert (refused.returncode, refused.stdout) == (1, "") and refused.stderr.count("\n") == 1
    assert f"a node runs on {node.data}" in refused.stderr
    assert done(node, "tables", "check")["store_epoch"] == before


def test_mistakes_are_answered_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def refused(code: int, *words: str) -> str:
        assert cli.main(words) == code
        (line,) = capsys.readouterr().err.splitlines()
        return line

    assert "no tables at" in refused(2, "tables", "backup", "--to", "x.db")
    assert "no tables at" in refused(2, "tables", "restored")
    assert "--to" in refused(2, "tables", "backup")
    assert "point-in-time" in refused(2, "tables", "backup", "--to", "x.db", "--tables", "dynamodb://eu-west-1")
    assert cli.main(["tables", "create"]) == 0
    (tmp_path / "x.db").write_text("precious")
    assert f"{tmp_path}/x.db: it is there already" in refused(1, "tables", "backup", "--to", "x.db")
    assert f"{tmp_path}/no: there is no such folder" in refused(1, "tables", "backup", "--to", "no/x.db")


def test_tables_in_dynamodb_get_another_epoch_too(
    dynamodb: DynamoLocal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    url = dynamodb.url(fresh_prefix())
    asyncio.run(create_tables(url))

    def epoch(verb: str) -> str:
        assert cli.main(["tables", verb, "--json", "--tables", url]) == 0
        return str(json.loads(capsys.readouterr().out)["store_epoch"])

    first = epoch("check")
    renewed = epoch("restored")
    assert first != renewed == epoch("check")
