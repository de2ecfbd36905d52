"""Sentinels: their URL, the primary that they name, and a keyspace that follows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.support.servers.sentinels import Watched, running_sentinels
from tests.support.waiting import eventually
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import plain
from tidings.stores.keyspace.open import open_any
from tidings.stores.keyspace.sentinel import Sentinels, parse_sentinel_url
from tidings.stores.keyspace.wire import Address
from tidings_proof.world.ports import free_port


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    with running_sentinels(tmp_path) as watched:
        await eventually(watched.is_ready)
        yield watched


def test_a_url_names_the_sentinels_the_group_and_how_to_sign_in_to_its_servers() -> None:
    place = parse_sentinel_url("valkey+sentinel://bob:p%40@h1:7,h2/mine/3?tls=true&ca=/ca&sentinel_password_file=/s")
    own = Address(host="h1", port=7, is_tls=True, ca="/ca", password_file="/s")
    assert place.sentinels == (own, msgspec.structs.replace(own, host="h2", port=26379))
    assert place.name == "mine"
    assert place.server == Address(host="h1", port=7, is_tls=True, ca="/ca", user="bob", password="p@", db=3)


@pytest.mark.parametrize("url", ["redis+sentinel://h:1", "redis+sentinel://h:1/", "redis+sentinel://h:1/a/b"])
def test_a_url_without_a_group_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(ValueError, match="ends with the name of the group"):
        parse_sentinel_url(url)


async def test_a_keyspace_follows_the_primary_that_the_sentinels_choose(watched: Watched) -> None:
    epochs: list[tuple[str, str]] = []
    heard: list[bytes] = []
    keyspace = await open_any(watched.url, (), Clock())
    keyspace.on_epoch(lambda old, new: epochs.append((old, new)))
    feed = await keyspace.subscribe("{c}", heard.append, lambda: None)
    await keyspace.run([plain("a", "SET", "a", "1")])
    old = watched.primary_port()
    watched.primary.kill()
    await eventually(lambda: watched.primary_port() != old)
    await eventually(lambda: len(epochs) == 1 and keyspace.is_up())
    assert await keyspace.one(plain("a", "SET", "a", "2")) == b"OK"
    assert watched.primary.ask("GET", "a") == "2"
    await eventually(lambda: feed.is_up)
    watched.primary.ask("SPUBLISH", "{c}", "hello")
    await eventually(lambda: heard == [b"hello"])
    await feed.close()
    await keyspace.close()


async def test_a_primary_that_was_cut_off_is_left_though_it_answers(watched: Watched) -> None:
    """It is stopped until the sentinels have chosen another. Then it wakes up, and takes itself for the primary."""
    keyspace = await open_any(watched.url, (), Clock())
    old_port, old = watched.primary_port(), watched.primary
    old.pause()
    await eventually(lambda: watched.primary_port() != old_port)
    old.resume()

    async def lands_on_the_new_one() -> bool:
        try:
            await keyspace.run([plain("a", "SET", "a", "mine")])
        except Unavailable:
            return False
        return bool(watched.primary.ask("GET", "a") == "mine")

    for _ in range(6_000):
        if await lands_on_the_new_one():
            break
    else:
        raise AssertionError("it stays with the old primary")
    await keyspace.close()


async def test_a_sentinel_that_is_gone_matters_to_nobody_and_none_at_all_is_one_line(watched: Watched) -> None:
    place = parse_sentinel_url(watched.url)
    gone = Address(host="127.0.0.1", port=free_port())
    found = await Sentinels(place._replace(sentinels=(gone, *place.sentinels[:1])), Clock()).locate()
    assert found.port == watched.first
    with pytest.raises(Unavailable, match=r"no sentinel names a primary of mymaster: .*connection refused"):
        await Sentinels(place._replace(sentinels=(gone,)), Clock()).locate()
    with pytest.raises(Unavailable, match=r"no sentinel names a primary of other: .*knows no group of this name"):
        await Sentinels(place._replace(name="other"), Clock()).locate()
