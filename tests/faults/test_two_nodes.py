"""Two nodes on one Valkey and one SQLite file: it does not matter which of them a message, or its resend, reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.devices.many_senders import Crowd, check_log, check_unread, read_log
from tests.support.devices.plain_client import Client
from tests.support.fault_checks import check_counts, send_until
from tests.support.nodes.node_process import NodeProcess
from tidings_proof.world.ports import free_port
from tidings_proof.world.valkey import start_valkey

Pair = tuple[NodeProcess, NodeProcess]


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two nodes that share everything, reached through a unix socket or a TCP port."""
    port = free_port()
    with ExitStack() as stack:
        valkey = start_valkey(tmp_path / "v", args=["--port", str(port), "--bind", "127.0.0.1"])
        stack.callback(valkey.stop)
        keyspace = valkey.url if getattr(request, "param", "unix") == "unix" else f"redis://127.0.0.1:{port}/0"
        env = {"TIDINGS_KEYSPACE": f"{keyspace}?prefix=two.", "TIDINGS_TABLES": f"sqlite://{tmp_path}/shared.db"}
        first, second = (stack.enter_context(NodeProcess(tmp_path / name, env)) for name in ("a", "b"))
        yield first.start(), second.start()


async def connect(crowd: Crowd, first: NodeProcess, second: NodeProcess) -> None:
    """The first device of each user is on one node, the second on the other: a race of the two is one of the nodes."""
    await crowd.connect(lambda name: (first if name.endswith("d0") else second).port, first.token)


async def connected(node: NodeProcess, user_id: str) -> Client:
    return await Client(node.port, node.token(user_id)).connect()


async def test_a_resend_to_the_other_node_gets_the_first_number(pair: Pair) -> None:
    first, second = pair
    c = first.create_group(["alice", "bob"])
    here, there = await connected(first, "alice"), await connected(second, "alice")
    for n in range(1, 21):
        said = await here.say(c, f"m{n}", f"text {n}")
        again = await there.say(c, f"m{n}", f"text {n}")
        assert (said["seq"], said["duplicate"]) == (n, False)
        assert (again["seq"], again["sent_at"], again["duplicate"]) == (n, said["sent_at"], True)
    other = await there.say(c, "m1", "something else")
    assert (other["code"], other["temporary"]) == ("conflict", False)
    bob = await connected(second, "bob")
    assert (await bob.request("inbox"))["total_unread"] == 20
    for client in (here, there, bob):
        await client.close()


@pytest.mark.parametrize("pair", ["unix", "redis"], indirect=True)
async def test_both_nodes_number_one_conversation_without_a_hole_or_a_duplicate(pair: Pair) -> None:
    first, second = pair
    crowd = Crowd(users=6, devices=2)
    c = first.create_group(crowd.user_ids)
    await connect(crowd, first, second)
    await crowd.send(c, 3_000)
    assert crowd.acknowledged == 3_000
    for reader in ("u0-d0", "u0-d1"):
        entries = await read_log(crowd.connected[reader], c)
        assert sum(entry["kind"] == "message" for entry in entries) == 3_000
        check_log(entries, crowd)
        for user_id in crowd.user_ids:
            await check_unread(crowd.connected[f"{user_id}{reader[2:]}"], c, user_id, entries)
    await check_counts(crowd, second, c)
    await crowd.leave()


async def test_a_removal_on_one_node_holds_on_the_other_at_once(pair: Pair) -> None:
    first, second = pair
    c = first.create_group(["alice", "bob", "carol"])
    bob = await connected(second, "bob")
    assert (await bob.say(c, "m1"))["type"] == "ok"
    status, _ = first.rest("DELETE", f"/v1/conversations/{c}/members/bob", user_id="alice")
    assert status == 204
    said = await bob.say(c, "m2")
    assert (said["type"], said["code"]) == ("error", "not_found")
    page = await bob.request("history", conversation_id=c)
    assert (page["type"], page["code"]) == ("error", "not_found")
    await bob.close()


async def test_what_a_killed_node_had_under_way_is_finished_by_the_other(pair: Pair) -> None:
    """Nothing is sent again: the other node alone brings the counts up to the log once the lease ran out."""
    first, second = pair
    crowd = Crowd(users=4, devices=2)
    c = first.create_group(crowd.user_ids)
    await connect(crowd, first, second)
    await send_until(crowd, c, count=1_600, at=400, blow=first.kill)
    crowd.connected = {name: device for name, device in crowd.connected.items() if not device.is_lost.is_set()}
    reader = crowd.connected["u0-d1"]
    async with asyncio.timeout(60):
        while second.tidings("unread", "verify").returncode != 0:
            await asyncio.sleep(0.2)
    entries = await read_log(reader, c)
    check_log(entries, crowd)
    for user_id in crowd.user_ids:
        await check_unread(crowd.connected[f"{user_id}-d1"], c, user_id, entries)

    first.start()
    await connect(crowd, first, second)
    await crowd.send(c, 0)
    entries = await read_log(reader, c)
    check_log(entries, crowd)
    assert all(crowd.unacknowledged(name) == [] for name in crowd.names)
    await check_counts(crowd, first, c)
    await crowd.leave()


def paged(node: NodeProcess, cursor: str | None) -> dict[str, Any]:
    """A page of the unread filter, asked for until the stores answer."""
    path = f"/v1/inbox?filter=unread&limit=4{f'&cursor={cursor}' if cursor else ''}"
    for _ in range(100):
        status, page = node.rest("GET", path, user_id="bob")
        if status == 200:
            return dict(page)
    raise AssertionError(page)


@pytest.mark.long
def test_each_unread_conversation_is_shown_once_while_another_device_reads_and_nodes_die(pair: Pair) -> None:
    first = pair[0]
    ids = [first.create_group(["alice", "bob"]) for _ in range(24)]
    for id_ in ids:
        assert first.rest("POST", f"/v1/conversations/{id_}/messages", {"text": "hi"}, "alice")[0] == 201
    shown: list[str] = []
    read: set[str] = set()
    cursor: str | None = None
    for turn in range(20):
        page = paged(pair[turn % 2], cursor)
        assert all(row["unread_count"] == 1 for row in page["conversations"])
        shown += [row["conversation_id"] for row in page["conversations"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        other = pair[(turn + 1) % 2]
        for id_ in (shown[-1], ids[turn], ids[-turn - 1]):  # what was shown last, what comes later, and what is gone by
            assert other.rest("POST", f"/v1/conversations/{id_}/read", {"up_to_seq": 1}, "bob")[0] == 200
            read.add(id_)
        if turn in (1, 2):  # the node that marked dies right after its answer
            other.kill()
            other.start()
    assert cursor is None and len(shown) == len(set(shown)), "none is shown twice"
    assert set(ids) - read <= set(shown), "none that stayed unread is left out"
    page = paged(first, None)
    assert page["unread_conversations"] == len(ids) - len(read) and page["total_unread"] == len(ids) - len(read)
