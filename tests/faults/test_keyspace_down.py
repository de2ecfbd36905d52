"""No Valkey at all: sends are refused for the moment, what is stored is still read, and nothing of it is lost after."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.devices.many_senders import Crowd, check_log, check_unread, read_log
from tests.support.devices.plain_client import Client, Frame, token_for
from tests.support.gateway.raw_websocket import http
from tidings.config.settings import Settings
from tidings.node import node as nodes
from tidings.node.node import Node
from tidings_proof.world.valkey import ValkeyProcess, start_valkey


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[ValkeyProcess]:
    """A server of this test's own, without any persistence: it comes back empty."""
    server = start_valkey(tmp_path / "v")
    yield server
    server.stop()


@pytest.fixture
async def own_node(own_valkey: ValkeyProcess, settings: Settings) -> AsyncIterator[Node]:
    async with nodes.open_node(dataclasses.replace(settings, keyspace=own_valkey.url)) as node:
        yield node


async def rest(node: Node, user_id: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token_for(node, user_id)}"}
    status, _, answer = await http(node.port, method, path, body, headers)
    return status, answer


async def connected(node: Node, user_id: str) -> Client:
    return await Client(node.port, token_for(node, user_id)).connect()


async def group_of(node: Node, *user_ids: str) -> str:
    view, _ = await node.core.directory.create(user_ids[0], kind="group", members=user_ids[1:])
    return view.head.conversation_id


async def keyspace_is(node: Node, state: str) -> None:
    """Until /readyz says so; it stays 200 all the time."""
    async with asyncio.timeout(60):
        while True:
            status, answer = await rest(node, "alice", "GET", "/readyz")
            assert (status, answer["tables"]) == (200, "up")
            if answer["keyspace"] == state:
                return
            await asyncio.sleep(0.02)


def is_refused(frame: Frame) -> bool:
    return (frame["type"], frame.get("code"), frame.get("temporary")) == ("error", "unavailable", True)


async def test_what_is_stored_is_read_while_the_keyspace_is_down(own_valkey: ValkeyProcess, own_node: Node) -> None:
    node = own_node
    c = await group_of(node, "alice", "bob")
    alice, bob = await connected(node, "alice"), await connected(node, "bob")
    for n in range(1, 6):
        await alice.say(c, f"m{n}", f"text {n}")
    await bob.request("message.read", conversation_id=c, up_to_seq=2)
    own_valkey.kill()
    await keyspace_is(node, "down")

    assert is_refused(await alice.say(c, "m6", "text 6"))
    status, answer = await rest(
        node, "alice", "POST", f"/v1/conversations/{c}/messages", {"message_id": "r", "text": "t"}
    )
    assert (status, answer["error"]["code"], answer["error"]["temporary"]) == (503, "unavailable", True)

    page = await bob.request("history", conversation_id=c)
    assert [one["seq"] for one in page["messages"]] == [5, 4, 3, 2, 1]
    status, answer = await rest(node, "bob", "GET", f"/v1/conversations/{c}/messages?limit=2")
    assert (status, [one["text"] for one in answer["messages"]]) == (200, ["text 5", "text 4"])

    inbox = await bob.request("inbox")
    assert (inbox["type"], inbox["stale"]) == ("ok", True)
    assert [(row["conversation_id"], row["unread_count"]) for row in inbox["conversations"]] == [(c, 3)]
    status, answer = await rest(node, "bob", "GET", "/v1/inbox")
    assert (status, answer["stale"], answer["conversations"][0]["unread_count"]) == (200, True, 3)

    status, _ = await rest(node, "mallory", "GET", f"/v1/conversations/{c}/messages")
    assert status == 404, "a stranger stays a stranger"
    await alice.close()
    await bob.close()


async def test_a_connect_without_the_keyspace_is_never_answered_half(own_valkey: ValkeyProcess, own_node: Node) -> None:
    own_valkey.kill()
    await keyspace_is(own_node, "down")
    client = await Client(own_node.port, token_for(own_node, "alice")).open()
    answer = await client.request("connect", token=client.token)
    assert is_refused(answer)
    await asyncio.wait_for(client.is_lost.wait(), 60)
    assert client.close_code == 4004
    own_valkey.start()
    await keyspace_is(own_node, "up")
    again = await connected(own_node, "alice")
    assert again.hello["total_unread"] == 0
    await again.close()


async def test_after_the_keyspace_is_back_everything_works_and_nothing_is_lost(
    own_valkey: ValkeyProcess, own_node: Node
) -> None:
    node = own_node
    crowd = Crowd(users=4, devices=2)
    c = await group_of(node, *crowd.user_ids)
    await crowd.connect(lambda name: node.port, lambda user_id: token_for(node, user_id))
    sending = asyncio.create_task(crowd.send(c, 1_000), name="crowd")
    while crowd.acknowledged < 300:
        await asyncio.sleep(0.005)
    own_valkey.kill()
    await keyspace_is(node, "down")
    assert 300 <= crowd.acknowledged < 1_000
    own_valkey.start()
    await keyspace_is(node, "up")
    await asyncio.wait_for(sending, 60)

    assert crowd.acknowledged == 1_000
    entries = await read_log(crowd.connected["u0-d0"], c)
    check_log(entries, crowd)
    # The node marks the changes of the minute before cold in its next pass, once; the next read counts them again.
    async with asyncio.timeout(60):
        cold = len(crowd.user_ids)
        while cold:
            for user_id in crowd.user_ids:
                await check_unread(crowd.connected[f"{user_id}-d0"], c, user_id, entries)
            report = await node.core.verify.run(None, repair=False)
            assert (report.users, report.wrong) == (4, [])
            cold = report.cold
    await crowd.leave()


async def test_a_frozen_keyspace_is_waited_for_and_then_refused(own_valkey: ValkeyProcess, own_node: Node) -> None:
    """It accepts connections and answers nothing: worse than gone, and still bounded."""
    node = own_node
    c = await group_of(node, "alice", "bob")
    alice = await connected(node, "alice")
    await alice.say(c, "m1", "one")
    own_valkey.pause()
    try:
        assert is_refused(await alice.say(c, "m2", "two"))
        page = await alice.request("history", conversation_id=c)
        assert [one["seq"] for one in page["messages"]] == [1]
    finally:
        own_valkey.resume()
    await keyspace_is(node, "up")
    answer = await alice.say(c, "m2", "two")
    while is_refused(answer):
        await asyncio.sleep(0.02)
        answer = await alice.say(c, "m2", "two")
    assert answer["type"] == "ok", answer
    entries = await read_log(alice, c)
    assert [one["text"] for one in entries if one["kind"] == "message"] == ["one", "two"]
    await alice.close()
