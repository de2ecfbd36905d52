"""The journal of open work as the keyspace has it, and the end of a node."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import FaultyNode


async def bury(node: FaultyNode, by: FaultyNode) -> int:
    """The node's lease has run out; another finishes its work."""
    nodes = node.core.keys.nodes
    await by.command("ZADD", nodes, 1, node.core.settings.node.id)
    done = await by.core.takeover.finish_dead()
    assert await by.command("ZSCORE", nodes, node.core.settings.node.id) is None
    return done


async def open_fields(node: FaultyNode, conversation_id: str) -> list[bytes]:
    fields = await node.command("HKEYS", node.core.keys.conv(conversation_id))
    return [field for field in fields if field.startswith(b"open:")]


async def opened(node: FaultyNode, node_id: str) -> set[bytes]:
    return set(await node.command("SMEMBERS", node.core.keys.open(node_id)))
