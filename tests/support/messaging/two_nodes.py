"""Two nodes that tell each other, without sockets; faults of their publishes; and what a device shows of it all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.messaging.faulty_stores import Device, Do, FaultyNode
from tidings.messaging.access import MemberList
from tidings.model import Content, Entry, digest_of
from tidings.pushes import Event, ReadSynced, Receipt
from tidings.stores.tables.values import Group


async def unheard(do: Do) -> Any:
    """A publish that reaches nobody, and says so."""
    return [0]


@asynccontextmanager
async def listening(*nodes: FaultyNode) -> AsyncIterator[None]:
    """Each hears what others have for it; nothing is said, renewed or repaired by itself."""
    for node in nodes:
        await node.core.bus.open(node.core.heartbeat._take, lambda: None)
    try:
        yield
    finally:
        for node in nodes:
            await node.core.deliver.close()
            await node.core.bus.close()


@asynccontextmanager
async def telling(*nodes: FaultyNode) -> AsyncIterator[None]:
    """They listen, and all know each other."""
    async with listening(*nodes):
        for node in (*nodes, *nodes):
            await node.core.registry.renew_node()
        yield


def pass_time(node: FaultyNode, seconds: float) -> None:
    """Time goes on for this node and for the keyspace as it sees it."""
    node.clock.ahead_ms += int(seconds * 1000)
    node.clock.elapsed_s += seconds
    node.keyspace.ahead_ms += int(seconds * 1000)


async def connect(node: FaultyNode, user_id: str, connection_id: str = "", device: str | None = None) -> Device:
    """As the gateway does it: attached, then announced."""
    one = Device(user_id, connection_id or f"{user_id}-{node.core.node_id}", device)
    assert node.core.hub.attach(one)
    await node.core.registry.claim(one)
    return one


async def member_list_of(node: FaultyNode, conversation_id: str) -> MemberList:
    """The list as the tables have it now."""
    member_list = await node.core.access.load(conversation_id)
    assert member_list is not None
    return member_list


def disconnect(node: FaultyNode, device: Device) -> None:
    node.core.hub.detach(device)
    node.core.registry.release(device)


async def write(node: FaultyNode, conversation_id: str, first: int, count: int, *, age_ms: int = 0) -> list[Entry]:
    """Messages of alice that are in the log and nowhere else, as old as the test says."""
    now_ms = node.clock.now_ms() - age_ms
    entries = tuple(
        Entry(
            conversation_id=conversation_id,
            seq_no=seq_no,
            kind="message",
            sent_ms=now_ms + seq_no - first - count,
            message_id=f"log-{seq_no}",
            sender_id="alice",
            content=Content(f"text {seq_no}"),
            timestamp=now_ms,
            digest=digest_of(Content(f"text {seq_no}")),
        )
        for seq_no in range(first, first + count)
    )
    for start in range(0, count, 40):
        (refused,) = await node.tables.log.append(
            [Group(conversation_id=conversation_id, entries=entries[start : start + 40])]
        )
        assert refused is None
    return list(entries)


def shown(device: Device) -> list[int | None]:
    """The unread counts that followed, in the order told."""
    return [event.state.unread_count for event in device.events if isinstance(event, ReadSynced)]


def ticks(device: Device) -> list[tuple[str, int, int]]:
    """Receipts as they came: user, delivered, read."""
    found: list[Event] = [event for event in device.events if isinstance(event, Receipt)]
    return [(one.user_id, one.delivered_seq, one.read_seq) for one in found if isinstance(one, Receipt)]
