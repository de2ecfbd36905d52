"""Servers: nodes that share their stores hear each other."""

from __future__ import annotations

from pathlib import Path

from tidings_proof.bench.target.own_node import folder
from tidings_proof.bench.target.servers import nodes


def test_nodes_share_their_stores_and_count_their_own_process() -> None:
    with folder() as data, nodes(Path(data), 2) as (one, other):
        conversation_id = one.direct("alice", "bob")
        assert other.say(conversation_id, "bob", "m1", "hi") == 1
        assert one.parts["valkey"] == other.parts["valkey"] and one.parts["node"] != other.parts["node"]
