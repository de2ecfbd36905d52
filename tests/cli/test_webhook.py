"""`tidings webhook`: made on the stores beside a running node, which then delivers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.nodes.node_process import NodeProcess
from tests.support.servers.hook_endpoint import open_endpoint
from tidings.cli.main import main


async def test_a_webhook_of_the_command_line_is_served_by_the_node(tmp_path: Path) -> None:
    env = {"TIDINGS_HOOKS_PRIVATE_ADDRESSES": "true"}
    async with open_endpoint() as endpoint:
        with NodeProcess(tmp_path / "data", env) as node:
            node.start()
            c = node.create_group(["u0", "u1"])
            added = node.tidings("webhook", "add", "--url", endpoint.url, "--kinds", "message", "--json")
            made = json.loads(added.stdout)
            assert made["secret"].startswith("whs_") and made["kinds"] == ["message"]
            assert node.rest("POST", f"/v1/conversations/{c}/messages", {"text": "hi"})[0] == 201
            await endpoint.until(lambda: endpoint.taken(c) == [1])
            assert endpoint.posts[0].is_signed_with(made["secret"])
            listed = node.tidings("webhook", "list")
            assert made["webhook_id"] in listed.stdout and made["secret"] not in listed.stdout
            count = len(endpoint.posts)
            again = ("--id", made["webhook_id"], "--conversation", c, "--from-seq", "1")
            assert "again from seq 1" in node.tidings("webhook", "replay", *again).stdout
            await endpoint.until(lambda: len(endpoint.posts) > count)
            assert node.tidings("webhook", "remove", "--id", made["webhook_id"]).returncode == 0
            assert json.loads(node.tidings("webhook", "list", "--json").stdout) == []
            assert node.tidings("webhook", "remove", "--id", made["webhook_id"]).returncode == 1


@pytest.mark.parametrize("words", [("--url", "http://127.0.0.1/"), ("--url", "https://a.example/", "--kinds", "x")])
def test_a_wrong_flag_is_one_line(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert main(["webhook", "add", *words]) == 2
    assert "bad value for --" in capsys.readouterr().err


def test_an_endpoint_on_this_machine_needs_dev_and_the_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["webhook", "add", "--url", "http://127.0.0.1:9000/"]) == 2
    assert capsys.readouterr().err.rstrip().endswith("for an endpoint of a --dev node add --dev")
    assert main(["webhook", "add", "--url", "ftp://127.0.0.1/"]) == 2
    assert "--dev" not in capsys.readouterr().err
