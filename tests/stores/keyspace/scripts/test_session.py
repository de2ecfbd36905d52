"""session_release on a real server: a device's last word counts only for its own connection."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tidings.bounds import INDEX_TTL_S
from tidings.clock import Clock
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.session import SOURCES, session_release
from tidings.stores.keyspace.server import open_keyspace
from tidings_proof.world.valkey import ValkeyProcess

_tenants = itertools.count(1)


class Session:
    """bob's session on a tenant of its own."""

    def __init__(self, keyspace: Any) -> None:
        self._keyspace = keyspace
        self._keys = Keys(f"routing{next(_tenants)}.")
        self.key = self._keys.session("bob")

    async def release(self, device: str, lease: str, now_ms: int) -> bool:
        call = session_release(self._keys, "bob", device, lease=lease, now_ms=now_ms)
        return bool(await self._keyspace.one(call))

    async def say(self, *words: str | int) -> Any:
        return await self._keyspace.one(plain(self.key, words[0], self.key, *words[1:]))


@pytest.fixture
async def session(valkey: ValkeyProcess) -> AsyncIterator[Session]:
    keyspace = await open_keyspace(valkey.url, SOURCES.values(), Clock())
    yield Session(keyspace)
    await keyspace.close()


async def test_when_a_device_went_is_noted(session: Session) -> None:
    await session.say("HSET", "phone", "n1:c1 100", "laptop", "n2:c2 90")
    await session.say("EXPIRE", 500)
    assert await session.release("phone", "n1:c1", 150)
    assert await session.say("HGETALL") == [b"phone", b"- 150", b"laptop", b"n2:c2 90"]
    assert 0 < await session.say("TTL") <= 500


async def test_a_late_word_of_an_older_connection_is_ignored(session: Session) -> None:
    await session.say("HSET", "phone", "n2:c2 200")
    for lease in ("n1:c1", "n2:c", "n2:c22"):
        assert not await session.release("phone", lease, 250)
    assert await session.say("HGET", "phone") == b"n2:c2 200"


async def test_who_has_gone_already_stays_gone(session: Session) -> None:
    await session.say("HSET", "phone", "- 200")
    assert not await session.release("phone", "n1:c1", 250)
    assert await session.say("HGET", "phone") == b"- 200"


async def test_a_session_that_was_lost_meanwhile_gets_its_end_of_life(session: Session) -> None:
    assert await session.release("phone", "n1:c1", 150)
    assert await session.say("HGET", "phone") == b"- 150"
    assert 0 < await session.say("TTL") <= INDEX_TTL_S
