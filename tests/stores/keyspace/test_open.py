"""The keyspace of a URL: the scheme says what it is, in both spellings."""

from __future__ import annotations

import pytest

from tidings.clock import Clock
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.open import has_sentinels, is_cluster, open_any
from tidings_proof.world.valkey import ValkeyProcess


@pytest.mark.parametrize("word", ["redis", "valkey"])
def test_both_spellings_mean_the_same(word: str) -> None:
    assert is_cluster(f"{word}+cluster://h:1") and has_sentinels(f"{word}+sentinel://h:1/m")
    assert not any(is_kind(f"{word}://h:1/0") for is_kind in (is_cluster, has_sentinels))


async def test_one_server_is_opened_by_its_url(valkey: ValkeyProcess) -> None:
    keyspace = await open_any(valkey.url, (), Clock())
    assert await keyspace.one(plain("", "PING")) == b"PONG"
    await keyspace.close()
