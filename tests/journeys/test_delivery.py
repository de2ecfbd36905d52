"""Delivery over two nodes on shared stores: every device, ticks, resume, and what happens when a node goes away."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from tests.support.devices.plain_client import Client, token_for
from tests.support.waiting import eventually
from tidings.bounds import CONNECTS_MAX
from tidings.config.settings import Node as NodeSettings
from tidings.config.settings import Settings
from tidings.gateway.connection import Connection
from tidings.model import User
from tidings.node.node import Node, open_node
from tidings_proof.world.valkey import ValkeyProcess

Join = Callable[..., Awaitable[Client]]


@pytest.fixture
async def two(settings: Settings) -> AsyncIterator[tuple[Node, Node]]:
    one = dataclasses.replace(settings, node=NodeSettings(id="one"))
    other = dataclasses.replace(settings, node=NodeSettings(id="other"))
    async with open_node(one) as a, open_node(other) as b:
        yield a, b


@pytest.fixture
async def join() -> AsyncIterator[Join]:
    """`await join(node, "alice", device="phone")`"""
    async with AsyncExitStack() as stack:

        async def join(node: Node, user_id: str, **fields: object) -> Client:
            client = Client(node.port, token_for(node, user_id))
            await client.connect(**fields)
            stack.push_async_callback(client.close)
            return client

        yield join


async def direct(node: Node, one: str, other: str) -> str:
    view, _ = await node.core.directory.create(one, kind="direct", members=[other])
    return view.head.conversation_id


async def test_a_message_reaches_every_device_on_both_nodes_but_the_one_that_sent_it(
    two: tuple[Node, Node], join: Join
) -> None:
    a, b = two
    phone, laptop = await join(a, "alice", device="phone"), await join(b, "alice", device="laptop")
    bob_a, bob_b = await join(a, "bob", device="1"), await join(b, "bob", device="2")
    c = await direct(a, "alice", "bob")
    await phone.say(c, "m1", "hello")
    for client in (laptop, bob_a, bob_b):
        assert (await client.message("hello"))["message"]["seq"] == 1
    await bob_b.say(c, "m2", "yes?")
    for client in (phone, laptop, bob_a):
        assert (await client.message("yes?"))["message"]["seq"] == 2
    assert phone.messages(c)[0]["seq"] == 2 and len(phone.messages(c)) == 1


async def test_entries_sent_on_both_nodes_at_once_come_in_one_order_without_a_gap(
    two: tuple[Node, Node], join: Join
) -> None:
    a, b = two
    alice, bob = await join(a, "alice"), await join(b, "bob")
    carol_a, carol_b = await join(a, "carol", device="1"), await join(b, "carol", device="2")
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob", "carol"])
    c = view.head.conversation_id
    sends = [
        client.say(c, f"{name}{i}", f"{name}{i}") for i in range(100) for name, client in (("a", alice), ("b", bob))
    ]
    answers = await asyncio.gather(*sends)
    assert sorted(answer["seq"] for answer in answers) == list(range(1, 201))
    for carol in (carol_a, carol_b):
        await eventually(lambda carol=carol: len(carol.messages(c)) >= 200)  # type: ignore[misc]
        assert [message["seq"] for message in carol.messages(c)] == list(range(1, 201))


async def test_reading_on_one_device_clears_the_other_and_turns_the_senders_ticks(
    two: tuple[Node, Node], join: Join
) -> None:
    a, b = two
    alice = await join(a, "alice")
    phone, laptop = await join(a, "bob", device="phone"), await join(b, "bob", device="laptop")
    c = await direct(a, "alice", "bob")
    await alice.say(c, "m1", "hello")
    await phone.message("hello")
    phone.send({"type": "message.delivered", "acks": {c: 1}})
    receipt = await alice.event(lambda frame: frame["type"] == "receipt" and frame["delivered_seq"] == 1)
    assert (receipt["user_id"], receipt["read_seq"]) == ("bob", 0)

    await laptop.request("message.read", conversation_id=c, up_to_seq=1)
    synced = await phone.event(lambda frame: frame["type"] == "read.synced" and frame["read_seq"] == 1)
    assert (synced["unread_count"], synced["total_unread"]) == (0, 0)
    receipt = await alice.event(lambda frame: frame["type"] == "receipt" and frame["read_seq"] == 1)
    assert receipt["delivered_seq"] == 1
    page = await alice.request("history", conversation_id=c)
    assert (page["delivered_all_seq"], page["read_all_seq"]) == (1, 1)


async def test_a_device_that_comes_back_on_another_node_gets_what_it_missed_once_then_live(
    two: tuple[Node, Node], join: Join
) -> None:
    a, b = two
    alice = await join(a, "alice")
    c = await direct(a, "alice", "bob")
    for i in range(1, 4):
        await alice.say(c, f"m{i}", f"text {i}")
    sending = asyncio.gather(*(alice.say(c, f"n{i}", f"more {i}") for i in range(50)))
    bob = await join(b, "bob", device="phone", resume={c: 1})
    resumed = await bob.event(lambda frame: frame["type"] == "resumed")
    assert (resumed["from_seq"], resumed["complete"], resumed["reset"]) == (2, True, False)
    await sending
    await eventually(lambda: len(bob.messages(c)) >= 52)
    assert [message["seq"] for message in bob.messages(c)] == list(range(2, 54))


async def test_who_reads_slowly_keeps_nobody_out(
    two: tuple[Node, Node], join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = two
    alice, c = await join(a, "alice"), await direct(a, "alice", "bob")
    await asyncio.gather(*(alice.say(c, f"m{n}") for n in range(30)))
    lagging, are_read, keeps_up = set[str](), asyncio.Event(), Connection.drained

    async def lags(connection: Connection) -> None:
        if connection.user_id == "bob" and not are_read.is_set():
            lagging.add(connection.connection_id)
            await are_read.wait()
        await keeps_up(connection)

    monkeypatch.setattr(Connection, "drained", lags)
    slow = [await join(a, "bob", device=f"d{n}", resume={c: 0}) for n in range(CONNECTS_MAX)]
    await eventually(lambda: len(lagging) == CONNECTS_MAX)
    async with asyncio.timeout(60):
        quick = await join(a, "alice", device="quick", resume={c: 0})
        await quick.event(lambda frame: frame["type"] == "resumed")
    are_read.set()
    for client in slow:
        assert (await client.event(lambda frame: frame["type"] == "resumed"))["to_seq"] == 30
        assert len(client.messages(c)) == 30


async def test_the_same_device_on_another_node_replaces_the_first(two: tuple[Node, Node], join: Join) -> None:
    a, b = two
    first = await join(a, "alice", device="phone")
    await join(b, "alice", device="phone")
    await asyncio.wait_for(first.is_lost.wait(), 60)
    assert first.close_code == 4505


async def test_a_conversation_named_by_no_one_but_changed_is_announced(two: tuple[Node, Node], join: Join) -> None:
    a, b = two
    alice = await join(a, "alice")
    c = await direct(a, "alice", "bob")
    before_ms = alice.hello["server_time"] - 1000
    await alice.say(c, "m1", "hello")
    bob = await join(b, "bob", since=before_ms)
    row = await bob.event(lambda frame: frame["type"] == "conversation.updated")
    assert (row["conversation_id"], row["unread_count"], row["last_message_preview"]) == (c, 1, "hello")


async def test_a_seq_beyond_the_head_is_a_reset_and_a_conversation_left_is_removed(
    two: tuple[Node, Node], join: Join
) -> None:
    a, b = two
    alice = await join(a, "alice")
    c = await direct(a, "alice", "bob")
    await alice.say(c, "m1", "hello")
    bob = await join(b, "bob", resume={c: 99, "c-nowhere": 3})
    resumed = await bob.event(lambda frame: frame["type"] == "resumed")
    assert (resumed["reset"], resumed["from_seq"], resumed["to_seq"]) == (True, 1, 1)
    gone = await bob.event(lambda frame: frame["type"] == "conversation.removed")
    assert gone["conversation_id"] == "c-nowhere"


async def test_revoking_on_one_node_closes_the_sockets_on_the_other(two: tuple[Node, Node], join: Join) -> None:
    a, b = two
    bob = await join(b, "bob")
    a.gateway.revoke("bob")
    await asyncio.wait_for(bob.is_lost.wait(), 60)
    assert bob.close_code == 4503


async def test_a_revoked_token_is_refused_on_the_other_node_at_once(two: tuple[Node, Node], join: Join) -> None:
    a, b = two
    bob = await join(b, "bob")  # so that this node has just looked at the account
    await revoke(a, "bob")
    await asyncio.wait_for(bob.is_lost.wait(), 60)
    again = Client(b.port, bob.token)
    await again.open()
    assert (await again.ask("connect", token=bob.token))["type"] == "error"
    await asyncio.wait_for(again.is_lost.wait(), 60)
    assert again.close_code == 4500


async def test_a_revocation_that_a_node_was_not_told_of_is_found_when_it_listens_again(
    two: tuple[Node, Node], join: Join, valkey: ValkeyProcess
) -> None:
    a, b = two
    bob, carol = await join(b, "bob"), await join(b, "carol")
    await a.core.tables.accounts.put_user(User(user_id="bob", tokens_valid_after=a.core.clock.now_ms() + 1000))
    valkey.command("CLIENT", "KILL", "TYPE", "pubsub")
    await asyncio.wait_for(bob.is_lost.wait(), 60)
    assert bob.close_code == 4503
    assert (await carol.request("ping"))["type"] == "pong"


async def revoke(node: Node, user_id: str) -> None:
    """As POST /v1/users/{user_id}/revoke does it. Tokens know the second they were made in."""
    await node.core.tables.accounts.put_user(User(user_id=user_id, tokens_valid_after=node.core.clock.now_ms() + 1000))
    node.gateway.revoke(user_id)
