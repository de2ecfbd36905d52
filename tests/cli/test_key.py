"""`tidings key`: made once under a name, listed without the key, refused by every node soon after it is withdrawn."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nodes.node_process import NodeProcess
from tidings.cli.main import main
from tidings.gateway.auth import API_KEY_S, hash_api_key
from tidings.gateway.tokens import user_of_bot


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeProcess]]:
    """Two on the same tables and keyspace."""
    folder = tmp_path_factory.mktemp("keys")
    with NodeProcess(folder / "data") as first:
        first.start()
        shared = {"TIDINGS_KEYSPACE": f"unix://{first.socket}", "TIDINGS_TABLES": f"sqlite://{first.data}/tidings.db"}
        with NodeProcess(folder / "other", shared) as second:
            yield [first, second.start()]


class Keys:
    def __init__(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._data = data
        self._capsys = capsys

    def run(self, *words: str, code: int = 0) -> str:
        self._capsys.readouterr()
        assert main(["key", *words, "--data", str(self._data)]) == code
        shown = self._capsys.readouterr()
        assert code == 0 or shown.out == ""
        return shown.err if code else shown.out


@pytest.fixture
def keys(nodes: list[NodeProcess], capsys: pytest.CaptureFixture[str]) -> Keys:
    return Keys(nodes[0].data, capsys)


def status(node: NodeProcess, key: str) -> int:
    link = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
    try:
        link.request("GET", "/v1/inbox", headers={"X-Api-Key": key, "X-User-Id": "alice"})
        return link.getresponse().status
    finally:
        link.close()


def test_a_key_is_shown_once_and_alone_on_stdout(keys: Keys) -> None:
    assert keys.run("create", "--name", "plain").startswith("tk_")
    made = json.loads(keys.run("create", "--name", "shown", "--role", "readonly", "--json"))
    assert (made["name"], made["role"]) == ("shown", "readonly") and made["key"].startswith("tk_")


def test_a_bot_key_belongs_to_the_user_that_is_named(keys: Keys, nodes: list[NodeProcess]) -> None:
    made = json.loads(keys.run("create", "--name", "helper", "--role", "bot", "--user", "helper", "--json"))
    assert (made["user_id"], user_of_bot(made["key"])) == ("helper", "helper")
    link = http.client.HTTPConnection("127.0.0.1", nodes[0].port, timeout=60)
    link.request("GET", "/v1/inbox", headers={"Authorization": f"Bearer {made['key']}"})
    assert link.getresponse().status == 200
    link.close()
    assert status(nodes[1], made["key"]) == 403, "it acts for its own user only"
    for words in (["--role", "bot"], ["--user", "alice"], ["--role", "bot", "--user", "a b"]):
        assert keys.run("create", "--name", "wrong", *words, code=2)


def test_a_key_is_listed_by_name_role_and_age_and_never_itself(keys: Keys) -> None:
    before_ms = time.time() * 1000
    key = keys.run("create", "--name", "listed", "--role", "readonly").strip()
    [row] = [row for row in json.loads(keys.run("list", "--json")) if row["name"] == "listed"]
    assert row.keys() == {"name", "role", "created_at", "hash_prefix"} and row["role"] == "readonly"
    assert before_ms - 1 <= row["created_at"] <= time.time() * 1000
    assert row["hash_prefix"] == hash_api_key(key)[:8]
    [line] = [line for line in keys.run("list").splitlines() if line.startswith("listed ")]
    assert line.split()[1] == "readonly" and line.endswith(row["hash_prefix"])
    assert key not in line and hash_api_key(key) not in line


def test_a_second_key_of_a_name_is_made_and_said_and_both_are_revoked(nodes: list[NodeProcess]) -> None:
    first, second = (nodes[0].tidings("key", "create", "--name", "twice") for _ in range(2))
    assert "Another key is named 'twice'" not in first.stderr
    assert "Another key is named 'twice'" in second.stderr and second.stdout.startswith("tk_")
    prefix = hash_api_key(first.stdout.strip())[:8]
    assert nodes[0].tidings("key", "revoke", "--name", "twice", "--hash", prefix).stdout.count("revoked twice") == 1
    assert nodes[0].tidings("key", "revoke", "--name", "twice", "--hash", prefix).returncode == 1
    nodes[0].tidings("key", "create", "--name", "twice")
    assert nodes[0].tidings("key", "revoke", "--name", "twice").stdout.count("revoked twice") == 2


def test_a_key_may_be_made_before_the_first_start_where_the_folder_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["key", "create", "--name", "early", "--data", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.startswith("tk_")
    assert main(["key", "list", "--data", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.startswith("early ")


def test_an_exception_to_the_limits_goes_with_the_last_key_of_its_name(
    keys: Keys, nodes: list[NodeProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    def limits(*words: str) -> str:
        assert main(["limits", *words, "--data", str(nodes[0].data)]) == 0
        return capsys.readouterr().out

    first = keys.run("create", "--name", "partner").strip()
    keys.run("create", "--name", "partner")
    limits("set", "--key", "partner", "--class", "http", "--limit", "5/60s")
    assert "limits" not in keys.run("revoke", "--name", "partner", "--hash", hash_api_key(first)[:8])
    assert "partner" in limits("list")
    assert "the exception to the limits for partner is removed too" in keys.run("revoke", "--name", "partner")
    assert "partner" not in limits("list")


@pytest.mark.parametrize("name", ["", "  ", "two\nlines"])
def test_a_name_is_printable_text(keys: Keys, name: str) -> None:
    assert "--name" in keys.run("create", "--name", name, code=2)


def test_a_revoked_key_is_refused_by_every_node_in_time(keys: Keys, nodes: list[NodeProcess]) -> None:
    gone, kept = (keys.run("create", "--name", name).strip() for name in ("leaked", "kept"))
    assert [status(node, gone) for node in nodes] == [200, 200]
    assert "revoked leaked (admin" in keys.run("revoke", "--name", "leaked")
    deadline_s = time.monotonic() + API_KEY_S + 1
    while [status(node, gone) for node in nodes] != [401, 401]:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert [status(node, kept) for node in nodes] == [200, 200]
    assert "leaked" not in keys.run("list")


def test_a_key_that_is_not_there_cannot_be_revoked(nodes: list[NodeProcess]) -> None:
    done = nodes[0].tidings("key", "revoke", "--name", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "tidings: no key is named 'nobody'; `tidings key list` shows every key\n"


def test_what_was_made_and_withdrawn_is_in_the_audit(
    keys: Keys, nodes: list[NodeProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    keys.run("create", "--name", "watched", "--role", "readonly")
    [gone] = json.loads(keys.run("revoke", "--name", "watched", "--json"))
    assert gone["name"] == "watched"
    assert main(["audit", "tail", "--json", "--count", "1000", "--data", str(nodes[0].data)]) == 0
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    told = [(one["class"], one["by"]) for one in events if one.get("detail") == "readonly watched"]
    assert told == [("key.created", "command line"), ("key.revoked", "command line")]
