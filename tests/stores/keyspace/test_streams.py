"""How far a consumer group is behind is read as the server knows it, and never as less than it may be."""

from __future__ import annotations

from tidings.node.graph import Core
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.streams import GroupLag, read_lag


async def test_a_stream_that_is_not_there_has_no_lag(core: Core) -> None:
    assert await read_lag(core.keyspace, "no-stream", "g") == GroupLag(0, 0, 0)


async def test_without_a_group_every_entry_waits(core: Core) -> None:
    key = core.keys.push(0)
    await core.keyspace.run([plain(key, b"XADD", key, b"*", b"job", n) for n in range(3)])
    assert await read_lag(core.keyspace, key, "g") == GroupLag(3, 3, 0)


async def test_entries_are_waiting_then_pending_then_gone(core: Core) -> None:
    key = core.keys.push(0)
    await core.keyspace.run([plain(key, b"XADD", key, b"*", b"job", n) for n in range(3)])
    await core.keyspace.one(plain(key, b"XGROUP", b"CREATE", key, b"g", b"0"))
    assert await read_lag(core.keyspace, key, "g") == GroupLag(3, 3, 0)
    taken = await core.keyspace.one(plain(key, b"XREADGROUP", b"GROUP", b"g", b"w", b"COUNT", 2, b"STREAMS", key, b">"))
    assert await read_lag(core.keyspace, key, "g") == GroupLag(3, 1, 2)
    first = taken[0][1][0][0]
    await core.keyspace.run([plain(key, b"XACK", key, b"g", first), plain(key, b"XDEL", key, first)])
    assert await read_lag(core.keyspace, key, "g") == GroupLag(2, 1, 1)


async def test_a_lag_that_the_server_does_not_know_is_every_entry_that_nobody_took(core: Core) -> None:
    key = core.keys.push(0)
    ids = await core.keyspace.run([plain(key, b"XADD", key, b"*", b"job", n) for n in range(4)])
    await core.keyspace.one(plain(key, b"XGROUP", b"CREATE", key, b"g", b"0"))
    await core.keyspace.one(plain(key, b"XREADGROUP", b"GROUP", b"g", b"w", b"COUNT", 1, b"STREAMS", key, b">"))
    await core.keyspace.one(plain(key, b"XDEL", key, ids[2]))
    assert await read_lag(core.keyspace, key, "g") == GroupLag(3, 2, 1)
