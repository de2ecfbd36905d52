"""An endpoint is away while nodes are killed: afterwards it has everything, in order, and knows every repetition."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.nodes.node_process import NodeProcess
from tests.support.servers.hook_endpoint import open_endpoint
from tidings_proof.world.valkey import start_valkey


def send_until(nodes: list[NodeProcess], conversation_id: str, first: int, count: int) -> None:
    """Send these messages, each to any node that takes it."""
    for n in range(first, first + count):
        body = {"text": f"text {n}", "message_id": f"m{n}"}
        for node in nodes * 20:
            try:
                if node.rest("POST", f"/v1/conversations/{conversation_id}/messages", body)[0] in (200, 201):
                    break
            except OSError:
                continue
        else:
            raise AssertionError(f"no node takes message {n}")


@pytest.mark.parametrize(
    ("turns", "seconds"),
    [(3, 0.0), pytest.param(10, 60.0, marks=(pytest.mark.long, pytest.mark.timeout(1800)), id="ten minutes")],
)
async def test_an_endpoint_that_was_away_gets_everything_in_order(tmp_path: Path, turns: int, seconds: float) -> None:
    valkey = start_valkey(tmp_path / "v")
    env = {
        "TIDINGS_KEYSPACE": f"{valkey.url}?prefix=hooks.",
        "TIDINGS_TABLES": f"sqlite://{tmp_path}/shared.db",
        "TIDINGS_HOOKS_PRIVATE_ADDRESSES": "true",
    }
    try:
        async with open_endpoint() as endpoint:
            with NodeProcess(tmp_path / "a", env) as a, NodeProcess(tmp_path / "b", env) as b:
                a.start(), b.start()
                ids = [a.create_group(["u0", "u1"]) for _ in range(3)]
                assert a.tidings("webhook", "add", "--url", endpoint.url).returncode == 0
                for id_ in ids:
                    send_until([a, b], id_, 0, 5)
                await endpoint.until(lambda: all(len(endpoint.taken(id_)) >= 5 for id_ in ids), within_s=120)
                endpoint.close()
                for turn, victim in enumerate(([a, b] * turns)[:turns], start=1):
                    until_s = time.monotonic() + seconds
                    for id_ in ids:
                        send_until([victim], id_, 10 * turn, 4)
                    victim.kill()
                    for id_ in ids:
                        send_until([b if victim is a else a], id_, 10 * turn + 4, 4)
                    victim.start()
                    while time.monotonic() < until_s:  # nothing is sent, and both nodes knock in vain
                        await asyncio.sleep(1)
                endpoint.status = 503
                await endpoint.open()
                await endpoint.until(lambda: endpoint.posts[-1], within_s=120)
                endpoint.status = 200
                wanted = {id_: [one["seq"] for one in history(a, id_)] for id_ in ids}  # voids of the kills among them
                await endpoint.until(lambda: all(endpoint.taken(id_) == wanted[id_] for id_ in ids), within_s=240)
                keys: dict[str, list[int]] = {}
                for post in endpoint.posts:
                    assert keys.setdefault(post.key, post.seqs) == post.seqs
                for id_ in ids:
                    seqs = [seq for key, those in keys.items() if f"/{id_}/" in key for seq in those]
                    assert sorted(seqs) == wanted[id_], "an entry came under two keys"
    finally:
        valkey.stop()


def history(node: NodeProcess, conversation_id: str) -> list[dict[str, int]]:
    body = node.rest("GET", f"/v1/conversations/{conversation_id}/messages?after_seq=0&limit=100")[1]
    found: list[dict[str, int]] = body["messages"]
    return found[::-1]
