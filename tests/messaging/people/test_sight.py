"""Nobody is watched through a conversation that they have never seen, or by somebody they have blocked."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import FaultyNode
from tests.support.messaging.two_nodes import connect
from tidings.pushes import Presence, Typing


async def presence(node: FaultyNode, asker: str, conversation_id: str) -> list[bool]:
    found = await node.core.live_status.presence(asker, conversation_id, [])
    return [one.online for one in found]


async def test_a_direct_conversation_without_a_message_shows_nothing(a: FaultyNode, direct: str) -> None:
    alice, bob = await connect(a, "alice"), await connect(a, "bob")
    await a.core.live_status.watch(alice, [direct])
    await a.core.live_status.typing("bob", direct, True, bob.connection_id)
    assert await a.core.live_status.presence("alice", direct, []) == [Presence("bob", False, None)]
    assert alice.events == []
    assert await a.core.directory.profiles("alice", direct, ["bob"]) == []
    await a.send("alice", direct, "m1")
    assert await presence(a, "alice", direct) == [True]
    assert [user.user_id for user in await a.core.directory.profiles("alice", direct, ["bob"])] == ["bob"]


async def test_a_block_ends_presence_and_typing_both_ways(a: FaultyNode, group: str) -> None:
    people = {user_id: await connect(a, user_id) for user_id in ("alice", "bob", "carol")}
    await a.core.blocks.block("alice", "bob")
    for device in people.values():
        await a.core.live_status.watch(device, [group])
        device.events.clear()
    assert await presence(a, "bob", group) == [False, True]
    assert await presence(a, "alice", group) == [False, True]
    assert await presence(a, "carol", group) == [True, True]
    for user_id in ("alice", "bob"):
        await a.core.live_status.typing(user_id, group, True, "")
    assert [e.user_id for e in people["carol"].events if isinstance(e, Typing)] == ["alice", "bob"]
    assert [e for user_id in ("alice", "bob") for e in people[user_id].events if isinstance(e, Typing)] == []
