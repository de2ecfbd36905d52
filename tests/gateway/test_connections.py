from __future__ import annotations

import pytest

from tests.gateway.test_socket import slow_reader
from tests.support.gateway.served import Gateway
from tests.support.gateway.standins import entry
from tidings.gateway import connections
from tidings.model import User
from tidings.pushes import MessageNew


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


async def test_all_queues_together_are_bounded(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "NODE_QUEUE_BYTES_MAX", 100_000)
    slow, quick = await slow_reader(gateway, "alice"), await gateway.wire("bob")
    (outbound,) = gateway.hub.of_user("alice")
    while outbound.socket.queued_bytes() < 300_000:  # type: ignore[attr-defined]
        outbound.push(MessageNew(entry(text="x" * 16_000), 1, False, 1))
    gateway.later(0)
    assert await slow.closed() == 4008
    assert (await quick.ask("ping"))["type"] == "pong"
