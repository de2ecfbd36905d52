"""What an operator sees of three nodes on a cluster of three shards and DynamoDB: every view, and doctor."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.nodes.fleet import Fleet, running_fleet
from tests.support.nodes.node_process import NodeProcess
from tests.support.servers.dynamodb_local import dynamodb as dynamodb
from tests.support.waiting import eventually

SHARDS = 3


@pytest.fixture(scope="module")
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet("dynamodb-cluster", request, tmp_path_factory.mktemp("o")) as fleet:
        yield fleet


class Operator:
    """Asks one node, whatever the others do."""

    def __init__(self, node: NodeProcess) -> None:
        self._port = node.port
        self._key = node.tidings("key", "create", "--name", "ops").stdout.strip()

    def look(self, path: str) -> Any:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            link.request("GET", f"/v1/admin/{path}", headers={"X-Api-Key": self._key})
            answer = link.getresponse()
            body = json.loads(answer.read())
            assert answer.status == 200, body
            return body
        finally:
            link.close()


def classes(entries: list[dict[str, Any]]) -> set[str]:
    return {entry["event"]["class"] for entry in entries}


async def test_every_view_tells_of_all_nodes_and_all_shards(fleet: Fleet) -> None:
    ann, bob = fleet.people("ann", "bob")
    c = fleet.group([ann, bob])
    phone = await fleet.join(ann, device="phone")
    try:
        for number in range(5):
            await phone.say(c, f"m{number}")
        operator = Operator(fleet.nodes[0])
        user, conversation = operator.look(f"users/{bob}"), operator.look(f"conversations/{c}")
        assert (user["total_unread"], user["is_stale"]) == (5, False) and operator.look(f"users/{ann}")["is_online"]
        assert (conversation["head"], len(conversation["members"])) == (5, 2)
        assert operator.look(f"users/{bob}/verify")["wrong"] == []
        await eventually(lambda: operator.look("overview")["messages"] == 5)
        await eventually(lambda: len(operator.look("overview")["nodes"]) == len(fleet.nodes))
        await eventually(lambda: operator.look("activity")["daily"][-1]["users"] >= 1)
        await eventually(lambda: "key.created" in classes(operator.look("audit")["entries"]))
        assert operator.look("rejects")["minutes"] == 60 and operator.look("push")["dead"] == 0
        assert operator.look("cold")["damaged"] == []
    finally:
        await phone.close()


def test_doctor_looks_at_every_shard_and_at_the_tables(fleet: Fleet) -> None:
    for _ in range(10):  # beside other work a store may be too slow to answer
        found = json.loads(fleet.nodes[0].tidings("doctor", "--json", "--budget", "60s").stdout)
        if "tables.schema" in [finding["name"] for finding in found["findings"]]:
            break
    names = {finding["name"]: finding["level"] for finding in found["findings"]}
    assert len(found["keyspace"]) == SHARDS and all(census["is_whole"] for census in found["keyspace"])
    assert {census["where"] for census in found["keyspace"]} == {
        finding["where"] for finding in found["findings"] if finding["name"] == "keyspace.clock"
    }
    assert (names["tables.schema"], names["blobs.reachable"], names["keyspace.eviction"]) == ("ok", "ok", "ok")
    kinds = [kind["family"] for census in found["keyspace"] for kind in census["kinds"]]
    assert "inbox" in kinds and "not ours" not in kinds
