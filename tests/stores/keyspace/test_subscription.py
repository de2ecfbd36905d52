"""A subscription: heard, kept up, and told of every time it had to be taken up again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from tidings.bounds import BUS_PROBE_S, KEYSPACE_COMMAND_S
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.keyspace import subscription as keyspace_feed
from tidings.stores.keyspace.subscription import Feed
from tidings.stores.keyspace.wire import Address, parse_address
from tidings_proof.world.valkey import ValkeyProcess, start_valkey


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ValkeyProcess]]:
    started = [start_valkey(tmp_path / name) for name in "ab"]
    yield started
    for server in started:
        server.stop()


class Listener:
    """Where to listen, and what was heard there."""

    def __init__(self, url: str) -> None:
        self.address = parse_address(url)
        self.messages: list[bytes] = []
        self.subscriptions = 0

    def locate(self) -> Address:
        return self.address

    def subscribed(self) -> None:
        self.subscriptions += 1

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Feed]:
        feed = Feed(self.locate, "bus", Clock(), self.messages.append, self.subscribed)
        await feed.open()
        try:
            yield feed
        finally:
            await feed.close()


def publish(server: ValkeyProcess, text: str) -> int:
    """How many heard it."""
    return int(server.command("SPUBLISH", "bus", text)[1:])


async def test_what_is_published_is_heard_in_order_until_it_is_closed(servers: list[ValkeyProcess]) -> None:
    listener = Listener(servers[0].url)
    async with listener.opened() as feed:
        assert feed.is_up and listener.subscriptions == 1
        for n in range(50):
            assert publish(servers[0], str(n)) == 1
        await eventually(lambda: listener.messages == [str(n).encode() for n in range(50)])
    assert not feed.is_up
    await eventually(lambda: publish(servers[0], "late") == 0)


async def test_a_server_that_restarts_is_subscribed_to_again_and_that_is_told(servers: list[ValkeyProcess]) -> None:
    listener = Listener(servers[0].url)
    async with listener.opened() as feed:
        servers[0].kill()
        await eventually(lambda: not feed.is_up)
        servers[0].start()
        await eventually(lambda: listener.subscriptions == 2 and feed.is_up)
        assert publish(servers[0], "again") == 1
        await eventually(lambda: listener.messages == [b"again"])


async def test_a_connection_that_is_cut_is_taken_up_again_before_the_next_probe(
    servers: list[ValkeyProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyspace_feed, "BUS_PROBE_S", 3_600.0)
    listener = Listener(servers[0].url)
    async with listener.opened():
        servers[0].command("CLIENT", "KILL", "TYPE", "pubsub")
        await eventually(lambda: listener.subscriptions == 2)


async def test_the_channel_is_followed_to_another_server(servers: list[ValkeyProcess]) -> None:
    listener = Listener(servers[0].url)
    async with listener.opened() as feed:
        feed.follow()
        assert feed.is_up  # it did not move
        listener.address = parse_address(servers[1].url)
        feed.follow()
        assert not feed.is_up
        await eventually(lambda: listener.subscriptions == 2 and feed.is_up)
        assert (publish(servers[0], "here"), publish(servers[1], "there")) == (0, 1)
        await eventually(lambda: listener.messages == [b"there"])


async def test_a_server_that_falls_silent_is_given_up(
    servers: list[ValkeyProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert KEYSPACE_COMMAND_S > 2 * BUS_PROBE_S
    monkeypatch.setattr(keyspace_feed, "KEYSPACE_COMMAND_S", 0.2)
    monkeypatch.setattr(keyspace_feed, "BUS_PROBE_S", 0.05)
    listener = Listener(servers[0].url)
    async with listener.opened() as feed:
        servers[0].pause()
        await eventually(lambda: not feed.is_up)
        servers[0].resume()
        await eventually(lambda: listener.subscriptions == 2 and feed.is_up)


async def test_what_cannot_be_subscribed_to_is_said_in_one_line(servers: list[ValkeyProcess]) -> None:
    servers[0].command("CONFIG", "SET", "requirepass", "right")
    refusals = {servers[0].url: "NOAUTH", f"unix://:wrong@{servers[0].socket}": "WRONGPASS"}
    for url, reason in (refusals | {"unix:///nowhere/v.sock": "No such file"}).items():
        with pytest.raises(Unavailable, match=reason) as caught:
            async with Listener(url).opened():
                pass
        assert "\n" not in str(caught.value) and "wrong@" not in str(caught.value)
    async with Listener(f"unix://:right@{servers[0].socket}").opened() as feed:
        assert feed.is_up


async def test_a_server_that_never_answers_is_said_with_how_long_it_was_asked(
    servers: list[ValkeyProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyspace_feed, "KEYSPACE_CONNECT_S", 0.1)
    servers[0].pause()
    try:
        with pytest.raises(Unavailable, match=r"no subscription \(no answer within 0\.1 s\)"):
            async with Listener(servers[0].url).opened():
                pass
    finally:
        servers[0].resume()


def hold_up(seconds: float) -> None:
    """The loop does not turn for so long."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        time.sleep(seconds / 10)


async def test_a_process_that_was_stopped_itself_reads_what_waits_instead_of_giving_up(
    servers: list[ValkeyProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time passed, but the server was not asked: the probes that go without an answer are what counts."""
    monkeypatch.setattr(keyspace_feed, "BUS_PROBE_S", 0.2)  # five in a row: a busy server is silent for less
    listener = Listener(servers[0].url)
    async with listener.opened() as feed:
        for n in range(1, 4):
            publish(servers[0], str(n))
            hold_up(1.2)
            await eventually(lambda n=n: len(listener.messages) == n)  # type: ignore[misc]
        assert feed.is_up and listener.subscriptions == 1


async def test_a_feed_closed_while_it_subscribes_hears_nothing_more(servers: list[ValkeyProcess]) -> None:
    listener = Listener(servers[0].url)
    servers[1].pause()
    async with listener.opened() as feed:
        listener.address = parse_address(servers[1].url)
        feed.follow()
        await eventually(lambda: feed._address == listener.address)  # it waits for an answer
    servers[1].resume()
    await eventually(lambda: b"connected_clients:1\r" in servers[1].command("INFO", "clients"))  # only who asks
    assert not feed.is_up and publish(servers[1], "late") == 0


async def test_a_server_that_answers_is_kept_however_long_nothing_is_published(
    servers: list[ValkeyProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyspace_feed, "BUS_PROBE_S", 0.2)  # five in a row: a busy server is silent for less
    listener = Listener(servers[0].url)
    async with listener.opened() as feed:
        await eventually(lambda: probes(servers[0]) > 3 * KEYSPACE_COMMAND_S / BUS_PROBE_S)
        assert feed.is_up and listener.subscriptions == 1


def probes(server: ValkeyProcess) -> int:
    """PINGs that the server answered, but for the one of its start."""
    stats = server.command("INFO", "commandstats").decode()
    return int(stats.partition("cmdstat_ping:calls=")[2].partition(",")[0] or 0) - 1
