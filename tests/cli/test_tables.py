"""Backup and restore as docs/run/operations.md tells an operator to do it, on a node that is in use."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.devices.many_senders import read_log
from tests.support.devices.plain_client import Client
from tests.support.nodes.node_process import NodeProcess, environment
from tests.support.servers.dynamodb_local import dynamodb as dynamodb
from tests.support.servers.dynamodb_local import fresh_prefix
from tests.support.waiting import eventually
from tidings.cli import main as cli
from tidings.clock import Clock
from tidings.stores.tables.dynamodb import adapter as dynamodb_adapter
from tidings_proof.world.dynamodb import DynamoLocal

ROOT = Path(__file__).resolve().parents[2]


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


class Recipe:
    """The lines of docs/run/operations.md, with this node in the place of the service."""

    def __init__(self, node: NodeProcess, copy: Path) -> None:
        self._node = node
        page = (ROOT / "docs" / "run" / "operations.md").read_text("utf-8")
        (lines,) = re.findall(r"```\nsystemctl stop tidings(.*?)```", page, re.DOTALL)
        program = node.data.parent / "bin" / "tidings"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidings "$@"\n')
        program.chmod(0o700)
        for theirs, ours in (
            ("/opt/tidings/bin", program.parent),
            ("/var/lib/tidings", node.data),
            ("/backup/tidings-2026-11-15-03.db", copy),
            ("curl -fs http://127.0.0.1:8000/readyz", "true"),
        ):
            assert theirs in lines
            lines = lines.replace(theirs, str(ours))
        self._before, _, self._after = lines.partition("systemctl start tidings\n")

    def put_back(self) -> str:
        """While the node is stopped."""
        return self._run(self._before)

    def look(self) -> str:
        """Once it runs again."""
        (settings,) = re.findall(r"^export .*$", self._before, re.MULTILINE)
        return self._run(f"{settings}\n{self._after}")

    def _run(self, lines: str) -> str:
        words = ["bash", "-eu", "-c", lines]
        folder, env = self._node.data.parent, environment(self._node.env)
        run = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == 0, run
        return run.stdout


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

    recipe = Recipe(node, copy)
    restored = recipe.put_back()
    node.start()
    bob = await connected(node, "bob", resume={c: last["seq"]})
    assert bob.hello["store_epoch"] != before and f"store_epoch: {bob.hello['store_epoch']}\n" in restored
    log = await read_log(bob, c)
    assert len(log) >= len(acknowledged), "what was acknowledged before the backup began is in it"
    assert [entry["message_id"] for entry in log] == [f"m{n}" for n in range(len(log))]
    if len(log) < last["seq"]:
        assert (await bob.event(lambda frame: frame["type"] == "resumed"))["reset"] is True
    again = await connected(node, "alice")
    said = await again.say(c, "after", "said after the backup")
    assert (said["seq"], said["duplicate"]) == (len(log) + 1, False)
    assert (await bob.request("inbox"))["total_unread"] == len(log) + 1
    assert "wrong: none\n" in recipe.look()
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
    asyncio.run(dynamodb_adapter.create(url, Clock()))

    def epoch(verb: str) -> str:
        assert cli.main(["tables", verb, "--json", "--tables", url]) == 0
        return str(json.loads(capsys.readouterr().out)["store_epoch"])

    first = epoch("check")
    renewed = epoch("restored")
    assert first != renewed == epoch("check")


# --- copy -----------------------------------------------------------------------------------------


async def test_an_installation_moves_to_other_tables_and_back(node: NodeProcess, tmp_path: Path) -> None:
    c = node.create_group(["alice", "bob"])
    alice = await connected(node, "alice")
    said = [await alice.say(c, f"m{n}", f"text {n}") for n in range(20)]
    await alice.close()
    refused = node.tidings("tables", "copy", "sqlite", f"sqlite://{tmp_path}/moved.db")
    assert refused.returncode == 1 and "a node runs on" in refused.stderr
    node.stop()
    moved = f"sqlite://{tmp_path}/moved.db"
    report = done(node, "tables", "copy", "sqlite", moved)
    assert report["is_equal"] and (report["conversations"], report["messages"]) == (1, 20)
    (node.data / "tidings.db").unlink()
    node.env["TIDINGS_TABLES"] = moved
    node.start()
    alice = await connected(node, "alice")
    again = await alice.say(c, "m7", "text 7")
    assert (again["seq"], again["duplicate"]) == (said[7]["seq"], True)
    assert len(await read_log(alice, c)) == 20
    await alice.close()


def test_a_copy_that_cannot_be_made_is_one_line(node: NodeProcess, tmp_path: Path) -> None:
    node.stop()
    for words, complaint, code in (
        (("sqlite", "sqlite"), "both are the same tables", 2),
        (("sqlite", "mysql://x"), "is not one of sqlite", 2),
        ((f"sqlite://{tmp_path}/nowhere.db", f"sqlite://{tmp_path}/new.db"), "there are no tables", 2),
    ):
        answer = node.tidings("tables", "copy", *words)
        assert (answer.returncode, answer.stderr.count("\n")) == (code, 1) and complaint in answer.stderr, answer


def test_a_copy_for_people_shows_both_sides(node: NodeProcess, tmp_path: Path) -> None:
    node.create_group(["alice", "bob"])
    node.stop()
    target = f"sqlite://{tmp_path}/new.db"
    answer = node.tidings("tables", "copy", "sqlite", target)
    assert answer.returncode == 0 and answer.stdout.endswith("both sides are equal\n"), answer
    assert re.search(r"^conversation_heads +1  [0-9a-f]{24}  =$", answer.stdout, re.MULTILINE)
    assert "the target is not empty" in node.tidings("tables", "copy", "sqlite", target).stderr
