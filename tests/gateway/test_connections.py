from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.gateway.test_socket import slow_reader
from tests.support.gateway.raw_websocket import PING, Wire
from tests.support.gateway.served import Gateway
from tests.support.gateway.standins import entry
from tidings.bounds import PING_INTERVAL_S
from tidings.gateway import connections, socket
from tidings.gateway.auth import hash_api_key
from tidings.gateway.connection import Connection
from tidings.gateway.connections import SLOT_S, Wheel
from tidings.gateway.tokens import new_bot_key
from tidings.model import User
from tidings.pushes import MessageNew
from tidings.stores.tables.values import ApiKey


async def test_open_sockets_are_counted(gateway: Gateway) -> None:
    wires = [await gateway.wire(), await gateway.wire("bob")]
    assert gateway.counts[-1] == 2
    for wire in wires:
        wire.drop()
    await gateway.until(lambda: gateway.counts[-1] == 0)


async def test_a_revoked_user_is_closed_4503_and_nobody_else(gateway: Gateway) -> None:
    mine = [await gateway.wire(), await gateway.wire()]
    other = await gateway.wire("bob")
    gateway.server.revoke("alice")
    assert [await wire.closed() for wire in mine] == [4503, 4503]
    assert (await other.ask("ping"))["type"] == "pong"


async def test_a_recheck_closes_what_older_tokens_opened_and_nothing_else(gateway: Gateway) -> None:
    stale, fresh, other = await gateway.wire(), await gateway.wire(), await gateway.wire("bob")
    gateway.clock.ahead_s += 10
    await gateway.accounts.put_user(User(user_id="alice", tokens_valid_after=gateway.clock.now_ms() - 5000))
    gateway.server.forget_user("alice")
    assert (await fresh.ask("auth.refresh", token=gateway.token()))["type"] == "ok"
    newest = await gateway.wire()
    for user_id in ("alice", "bob", "nobody"):
        await gateway.server.recheck(user_id)
    assert await stale.closed() == 4503
    for wire in (fresh, newest, other):
        assert (await wire.ask("ping"))["type"] == "pong"


async def test_a_bot_whose_key_is_revoked_is_closed_4503_and_no_other_connection(gateway: Gateway) -> None:
    keys = [new_bot_key("helper", gateway.clock) for _ in range(2)]
    for name, key in zip(("old", "new"), keys, strict=True):
        await gateway.accounts.put_api_key(ApiKey(key_hash=hash_api_key(key), name=name, role="bot", created_ms=1))
    old, new = [await Wire.open(gateway.port) for _ in keys]
    for wire, key in ((old, keys[0]), (new, keys[1])):
        assert (await wire.connect(key))["type"] == "hello"
    person = await gateway.wire()
    await gateway.accounts.remove_api_key(hash_api_key(keys[0]))
    await gateway.server.close_revoked_bots()
    assert await old.closed() == 4503
    for wire in (new, person):
        assert (await wire.ask("ping"))["type"] == "pong"


async def bot_of(gateway: Gateway) -> tuple[Wire, str]:
    """A bot that has signed in with a key of its own."""
    key = new_bot_key("helper", gateway.clock)
    await gateway.accounts.put_api_key(ApiKey(key_hash=hash_api_key(key), name="bot", role="bot", created_ms=1))
    wire = await Wire.open(gateway.port)
    assert (await wire.connect(key))["type"] == "hello"
    return wire, key


async def test_a_bot_whose_key_is_made_while_the_keys_are_read_stays(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await bot_of(gateway)
    read, late = gateway.accounts.api_keys, list[Wire]()

    async def slowly() -> list[ApiKey]:
        found = await read()
        late.append((await bot_of(gateway))[0])
        return found

    monkeypatch.setattr(gateway.accounts, "api_keys", slowly)
    await gateway.server.close_revoked_bots()
    for wire in (first, *late):
        assert (await wire.ask("ping"))["type"] == "pong"


async def test_a_bot_that_goes_on_with_a_token_outlives_its_key(gateway: Gateway) -> None:
    wire, key = await bot_of(gateway)
    assert (await wire.ask("auth.refresh", token=gateway.token("helper")))["type"] == "ok"
    await gateway.accounts.remove_api_key(hash_api_key(key))
    await gateway.server.close_revoked_bots()
    assert (await wire.ask("ping"))["type"] == "pong"


async def test_a_bot_that_leaves_while_its_key_is_checked_is_not_kept(gateway: Gateway) -> None:
    wire, key = await bot_of(gateway)
    (bot,) = gateway.hub.of_user("helper")
    assert isinstance(bot, Connection)
    go_on = gateway.limiter.gate = asyncio.Event()
    wire.say(id=7, type="auth.refresh", token=key)
    await gateway.until(lambda: bot.in_flight == 1)
    wire.drop()
    await gateway.until(lambda: gateway.counts[-1] == 0)
    go_on.set()
    await gateway.until(lambda: bot.in_flight == 0)
    assert bot not in bot._owner._bots


async def test_all_queues_together_are_bounded(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "NODE_QUEUE_BYTES_MAX", 100_000)
    monkeypatch.setattr(socket, "CLOSE_LINGER_S", 60.0)  # on a busy machine the queue is read in more than 5 s
    slow, quick = await slow_reader(gateway, "alice"), await gateway.wire("bob")
    (outbound,) = gateway.hub.of_user("alice")
    while outbound.socket.queued_bytes() < 300_000:  # type: ignore[attr-defined]
        outbound.push(MessageNew(entry(text="x" * 16_000), 1, False, 1))
    gateway.later(0)
    assert await slow.closed() == 4008
    assert (await quick.ask("ping"))["type"] == "pong"


class Looked:
    """A connection as the wheel sees it."""

    slot = 0


def test_the_wheel_gives_each_connection_once_when_its_time_has_come() -> None:
    wheel = Wheel()
    early: Any = Looked()
    late: Any = Looked()
    wheel.put(early, 10.0)
    wheel.put(late, 12.3)
    assert wheel.take(9.9) == []
    assert wheel.take(10.0) == [early]
    assert wheel.take(12.2) == []
    assert wheel.take(12.3 + SLOT_S) == [late]
    assert wheel.take(1_000.0) == []


def test_a_time_that_is_set_again_replaces_the_one_before() -> None:
    wheel = Wheel()
    one: Any = Looked()
    wheel.put(one, 10.0)
    wheel.put_by(one, 20.0)
    wheel.put_by(one, 5.0)
    assert wheel.take(6.0) == [one]
    wheel.put(one, 30.0)
    assert wheel.take(29.0) == []
    assert wheel.take(30.0) == [one]


async def test_a_connection_at_rest_is_looked_at_when_its_ping_is_due_and_not_before(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    look = connections.Connections._look

    def counted(self: connections.Connections, one: Connection) -> None:
        looks.append(one.user_id)
        look(self, one)

    monkeypatch.setattr(connections.Connections, "_look", counted)
    wire = await gateway.wire()
    gateway.later(6)  # past the time for a connect
    assert looks == ["alice"]
    for _ in range(17):
        gateway.later(1)
    assert looks == ["alice"]
    gateway.later(3)
    assert looks == ["alice", "alice"]
    assert (await wire.frame())[0] == PING


async def test_who_spoke_a_moment_ago_is_pinged_a_whole_interval_later(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.later(PING_INTERVAL_S - 1)
    assert (await wire.ask("ping"))["type"] == "pong"
    gateway.later(2)
    assert (await wire.ask("ping"))["type"] == "pong"  # no ping of the server came before it
    gateway.later(PING_INTERVAL_S + 1)
    assert (await wire.frame())[0] == PING


async def test_a_refresh_to_a_token_that_ends_earlier_closes_at_its_end(gateway: Gateway) -> None:
    wire = await gateway.wire()
    gateway.later(6)
    assert (await wire.ask("auth.refresh", token=gateway.token(ttl_s=3)))["type"] == "ok"
    gateway.later(4)
    assert await wire.closed() == 4005
