"""The invariants of a warm user in the keyspace, looked at with plain commands."""

from __future__ import annotations

from typing import Any

from tidings.node.graph import Core
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.scripts.marks import Mark, unpack_mark
from tidings.stores.keyspace.scripts.messaging import mentions_of

OWN = {b":epoch", b"*", b":gen", b":unread", b":convs", b":cold", b":more"}


async def say(core: Core, *words: str | bytes | int) -> Any:
    """One command, as it is."""
    return await core.keyspace.one(plain("", *words))


async def marks_of(core: Core, user_id: str) -> dict[str, Mark]:
    """Every built mark of a user."""
    flat = await say(core, b"HGETALL", core.keys.mark(user_id))
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return {name.decode(): unpack_mark(packed) for name, packed in fields.items() if name[:1] not in b":*~+"}


async def check_warm(core: Core, user_id: str) -> bool:
    """Asserts what always holds of a warm user; False: the user is COLD, and there is nothing to assert."""
    flat = await say(core, b"HGETALL", core.keys.mark(user_id))
    fields: dict[bytes, bytes] = dict(zip(flat[::2], flat[1::2], strict=True))
    epoch = (core.keyspace.epoch(core.keys.mark(user_id)) + core.scripts.epoch_tag).encode()
    if fields.get(b":epoch") != epoch or b"*" not in fields:
        return False
    inbox = {name.decode() for name in await say(core, b"ZRANGE", core.keys.inbox(user_id), 0, -1)}
    marks, cap = await marks_of(core, user_id), core.settings.unread.cap
    cold = {name[1:].decode() for name in fields if name[:1] == b"~"}
    shown = [mark.shown(cap) for mark in marks.values()]
    assert fields.keys() >= OWN and not any(name[:1] == b"+" for name in fields)
    archived = {name.decode() for name in await say(core, b"ZRANGE", f"{core.keys.inbox(user_id)}:archived", 0, -1)}
    large = {name.decode() for name in await say(core, b"ZRANGE", f"{core.keys.inbox(user_id)}:large", 0, -1)}
    assert marks.keys() | cold == inbox | archived | large and not marks.keys() & cold
    assert len(inbox) + len(archived) + len(large) == len(inbox | archived | large)
    assert int(fields[b"*"]) == len(inbox)
    assert int(fields[b":cold"]) == len(cold)
    assert int(fields[b":unread"]) == sum(shown)
    assert int(fields[b":convs"]) == sum(count > 0 for count in shown)
    return True


async def check_set(core: Core, user_id: str, conversation_id: str) -> None:
    """The unread set is what its mark says, as long as it was not lost."""
    mark = (await marks_of(core, user_id))[conversation_id]
    held = [int(seq) for seq in await say(core, b"ZRANGE", core.keys.unread(user_id, conversation_id), 0, -1)]
    assert held == sorted(held)
    assert len(held) in (0, mark.count)
    key = mentions_of(core.keys.unread(user_id, conversation_id))
    mentions = [int(seq) for seq in await say(core, b"ZRANGE", key, 0, -1)]
    assert len(mentions) in (0, mark.mentions)
    assert not held or set(mentions) <= set(held)
    assert all(seq > mark.seen and seq > mark.floor for seq in held)
