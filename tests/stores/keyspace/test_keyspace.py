"""Every key has a time to live or an owner: nothing that a journey leaves behind stays in the keyspace for ever."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable

import pytest

from tests.support.devices.plain_client import Client
from tests.support.messaging.faulty_stores import Device
from tidings.bounds import Limit
from tidings.config.settings import Settings
from tidings.errors import Problem
from tidings.model import Content, ContentPatch
from tidings.node.graph import Core
from tidings.stores.keyspace.call import plain

# Keys without a time to live, and who takes them away.
PERMANENT = (
    "nodes",  # a node takes itself off it, or is taken off by who finishes its work
    "open:{",  # the same
)
# A fixed number of keys without a time to live: shards, whose members go when they are dealt with.
SHARDS = ("due:{", "push:{", "later:{", "push:dead")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    limits = dataclasses.replace(settings.limits, send=Limit(20, 60))
    return dataclasses.replace(settings, limits=limits)


async def ttls(core: Core) -> dict[str, int]:
    """Every key of this tenant, and how many seconds it has; -1: for ever."""
    prefix, found, cursor = core.keys.prefix, dict[str, int](), b"0"
    while True:
        cursor, names = await core.keyspace.one(plain(prefix, b"SCAN", cursor, b"MATCH", f"{prefix}*", b"COUNT", 1_000))
        for name in names:
            key = name.decode()
            found[key.removeprefix(prefix)] = await core.keyspace.one(plain(key, b"TTL", key))
        if cursor == b"0":
            return found


def immortal(found: dict[str, int]) -> list[str]:
    return sorted(key for key, ttl_s in found.items() if ttl_s == -1 and not key.startswith((*PERMANENT, *SHARDS)))


def kinds(found: dict[str, int]) -> set[str]:
    return {key.partition(":")[0] for key in found}


async def talk(core: Core) -> None:
    """A bit of everything: first looks before and after the first message, edits, reads, members, refusals."""
    await core.unread.totals("bob")  # warm, with nothing in it
    view, _ = await core.directory.create("alice", kind="direct", members=["bob"])
    direct = view.head.conversation_id
    await core.sends.send("alice", direct, "m1", Content("hi"))
    await core.sends.send("alice", direct, "m1", Content("hi"))
    await core.inbox.page("bob", limit=20, cursor=None)
    group = (await core.directory.create("alice", kind="group", members=["bob"], name="G"))[0].head.conversation_id
    for i in range(5):
        await core.sends.send("bob", group, f"g{i}", Content("hello"))
    await core.directory.add("alice", group, ["carol", "dave"])
    await core.rewrites.edit("bob", group, 1, ContentPatch("edited"))
    await core.rewrites.delete("alice", group, 2)
    await core.unread.mark_read("alice", group, up_to_seq=3)
    await core.unread.mark_unread("alice", group, from_seq=2)
    await core.unread.mark_read("carol", group, seqs=[6])
    await core.history.page("carol", group)
    await core.resume.catch_up(Device("carol", "x"), {group: 1}, 0)
    await core.directory.remove("alice", group, "dave")
    for user_id in ("alice", "bob", "carol", "dave", "stranger"):
        await core.unread.totals(user_id)
        await core.inbox.page(user_id, limit=20, cursor=None)
    for i in range(30):
        try:
            await core.sends.send("alice", direct, f"many{i}", Content("refused in the end"))
        except Problem as problem:
            assert problem.code == "rate_limited"
    await core.verify.run(None, repair=True)


async def test_every_key_that_a_journey_leaves_has_a_time_to_live(core: Core) -> None:
    await core.registry.renew_node()
    await talk(core)
    found = await ttls(core)
    assert {"nodes", "open", "inbox", "mark", "unread", "rate", "conv", "sent"} <= kinds(found)
    assert immortal(found) == []


async def test_a_conversation_that_is_deleted_and_left_leaves_no_key_for_ever(core: Core) -> None:
    for user_id in ("alice", "bob", "carol"):
        await core.unread.totals(user_id)
    view, _ = await core.directory.create("alice", kind="channel", members=["bob", "carol"])
    await core.sends.send("alice", view.head.conversation_id, "m1", Content("hi"))
    await core.directory.remove("bob", view.head.conversation_id, "bob")
    await core.directory.delete("alice", view.head.conversation_id)
    for user_id in ("alice", "bob", "carol"):
        await core.unread.totals(user_id)
    assert immortal(await ttls(core)) == []


@pytest.mark.parametrize("lost", [[], ["mark"], ["inbox"], ["mark", "inbox"], ["unread"], ["conv"]], ids="-".join)
async def test_every_key_of_somebody_whose_index_was_lost_has_a_time_to_live(core: Core, lost: list[str]) -> None:
    view, _ = await core.directory.create("alice", kind="direct", members=["bob"])
    id_ = view.head.conversation_id
    await core.unread.totals("bob")
    await core.sends.send("alice", id_, "m1", Content("hi"))
    await core.unread.totals("bob")
    keys = {
        "mark": core.keys.mark("bob"),
        "inbox": core.keys.inbox("bob"),
        "unread": core.keys.unread("bob", id_),
        "conv": core.keys.conv(id_),
    }
    for name in lost:
        await core.keyspace.one(plain(keys[name], b"UNLINK", keys[name]))
    await core.sends.send("alice", id_, "m2", Content("hi"))
    assert (await core.unread.totals("bob")).total_unread == 2
    await core.sends.send("alice", id_, "m3", Content("hi"))
    assert immortal(await ttls(core)) == []
    assert (await core.unread.totals("bob")).total_unread == 3


async def test_a_node_that_left_owns_nothing_any_more(core: Core) -> None:
    await core.registry.renew_node()
    await talk(core)
    await core.sends.drain()
    await core.registry.leave()
    assert [key for key in await ttls(core) if key.startswith(PERMANENT)] == []


async def test_a_whole_node_with_sockets_leaves_no_key_for_ever(
    connect: Callable[..., Awaitable[Client]], node: object
) -> None:
    core: Core = node.core  # type: ignore[attr-defined]
    alice, bob = await connect("alice", device="laptop"), await connect("bob")
    view, _ = await core.directory.create("alice", kind="direct", members=["bob"])
    await alice.ask("message.send", conversation_id=view.head.conversation_id, message_id="m1", text="hi")
    await bob.ask("message.read", conversation_id=view.head.conversation_id, up_to_seq=1)
    await bob.ask("inbox")
    assert immortal(await ttls(core)) == []
