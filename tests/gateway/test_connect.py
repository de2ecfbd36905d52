from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.support.gateway.raw_websocket import Wire, http
from tests.support.gateway.served import Gateway
from tests.support.gateway.signing import sign
from tests.support.gateway.standins import entry, resumed
from tidings import __version__
from tidings.bounds import CONNECTIONS_PER_USER_MAX, CONNECTS_MAX, RESUME_HELD_MAX
from tidings.errors import StoreUnavailable, Unavailable
from tidings.gateway import connect
from tidings.model import Totals, User
from tidings.pushes import ConversationRemoved, MessageNew, Typing


async def test_hello_says_what_a_client_needs(gateway: Gateway) -> None:
    wire, before_ms = await Wire.open(gateway.port), gateway.clock.now_ms()
    hello = await wire.connect(gateway.token())
    assert hello.pop("connection_id") == gateway.hub.of_user("alice")[0].connection_id
    assert before_ms <= hello.pop("server_time") <= gateway.clock.now_ms()
    assert hello == {
        "id": 1,
        "type": "hello",
        "protocol": 1,
        "user_id": "alice",
        "server_version": __version__,
        "store_epoch": "epoch-1",
        "ping_interval_ms": 25_000,
        "total_unread": 12,
        "unread_conversations": 3,
    }


async def test_what_was_missed_follows_hello(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.port)
    await wire.connect(gateway.token(), resume={"c1": 41}, since=5)
    assert await wire.hear() == {"type": "conversation.removed", "conversation_id": "c1"}
    assert gateway.resume.calls == [({"c1": 41}, 5)]


async def test_a_bad_token_is_refused_and_closed_4500(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.port)
    assert (await wire.connect("nonsense"))["code"] == "unauthorized"
    assert await wire.closed() == 4500
    assert len(gateway.hub) == 0


async def test_a_connect_that_cannot_be_served_is_closed_4004_without_hello(gateway: Gateway) -> None:
    gateway.marks.error = Unavailable()
    wire = await Wire.open(gateway.port)
    assert (await wire.connect(gateway.token()))["code"] == "unavailable"
    assert await wire.closed() == 4004
    assert len(gateway.hub) == 0


async def test_too_many_connects_are_closed_4013(gateway: Gateway) -> None:
    gateway.limiter.refused.add("connect")
    wire = await Wire.open(gateway.port)
    answer = await wire.connect(gateway.token())
    assert (answer["code"], answer["retry_after_ms"]) == ("rate_limited", 1200)
    assert await wire.closed() == 4013


async def test_a_user_has_so_many_connections_and_no_more(gateway: Gateway) -> None:
    wires = [await gateway.wire() for _ in range(CONNECTIONS_PER_USER_MAX)]
    one_more = await Wire.open(gateway.port)
    assert (await one_more.connect(gateway.token()))["type"] == "error"
    assert await one_more.closed() == 4504
    assert (await wires[0].ask("ping"))["type"] == "pong"


async def test_the_same_device_again_replaces_the_older_connection(gateway: Gateway) -> None:
    first = await gateway.wire(device="laptop")
    other = await gateway.wire(device="phone")
    second = await gateway.wire(device="laptop")
    assert await first.closed() == 4505
    for wire in (other, second):
        assert (await wire.ask("ping"))["type"] == "pong"
    assert len(gateway.hub.of_user("alice")) == 2


async def test_an_event_between_attach_and_hello_comes_after_hello(gateway: Gateway) -> None:
    counted = asyncio.Event()

    async def totals(user_id: str, found: object = ()) -> Totals:
        gateway.hub.push(user_id, ConversationRemoved("c9"))
        await counted.wait()
        return Totals(1, 1)

    gateway.marks.totals = totals  # type: ignore[method-assign]
    wire = await Wire.open(gateway.port)
    wire.say(id=1, type="connect", token=gateway.token())
    await gateway.until(lambda: gateway.hub.of_user("alice"))
    counted.set()
    assert [(await wire.hear())["type"] for _ in range(2)] == ["hello", "conversation.removed"]


async def test_a_hello_does_not_wait_for_a_rebuild_and_the_totals_follow(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "HELLO_TOTALS_S", 0.01)
    monkeypatch.setattr(connect, "TOTALS_AGAIN_S", 0.0)
    counted, tries = asyncio.Event(), 0

    async def totals(user_id: str, found: object = ()) -> Totals:
        nonlocal tries
        tries += 1
        if tries > 1:
            raise Unavailable("no answer, says the test")
        await counted.wait()
        return Totals(12, 3)

    async def totals_now(user_id: str, found: object = ()) -> Totals:
        return Totals(12, 3)

    gateway.marks.totals = totals  # type: ignore[method-assign]
    wire = await Wire.open(gateway.port)
    hello = await wire.connect(gateway.token(), resume={"c1": 1}, since=5)
    assert (hello["type"], hello["total_unread"], hello["unread_conversations"]) == ("hello", None, None)
    assert (await wire.hear())["type"] == "conversation.removed"
    assert (gateway.resume.calls, gateway.resume.others) == ([({"c1": 1}, None)], [])
    await gateway.until(lambda: tries > 2)
    gateway.marks.totals = totals_now  # type: ignore[method-assign]
    synced = await wire.hear()
    assert (synced["type"], synced["conversation_id"], synced["unread_count"]) == ("read.synced", None, None)
    assert (synced["total_unread"], synced["unread_conversations"]) == (12, 3)
    await gateway.until(lambda: gateway.resume.others == [("alice", 5)])


async def test_a_revocation_during_the_connect_is_seen(gateway: Gateway) -> None:
    async def totals(user_id: str, found: object = ()) -> Totals:
        await gateway.accounts.put_user(User(user_id=user_id, tokens_valid_after=gateway.clock.now_ms() + 1))
        gateway.server.revoke(user_id)
        return Totals(1, 1)

    gateway.marks.totals = totals  # type: ignore[method-assign]
    wire = await Wire.open(gateway.port)
    wire.say(id=1, type="connect", token=gateway.token())
    assert await wire.closed() in (4500, 4503)
    assert len(gateway.hub) == 0


async def test_who_leaves_during_the_connect_does_not_stay_attached(gateway: Gateway) -> None:
    going_on = asyncio.Event()

    async def totals(user_id: str, found: object = ()) -> Totals:
        await going_on.wait()
        return Totals(1, 1)

    gateway.marks.totals = totals  # type: ignore[method-assign]
    wire = await Wire.open(gateway.port)
    wire.say(id=1, type="connect", token=gateway.token())
    await gateway.until(lambda: gateway.hub.of_user("alice"))
    wire.drop()
    going_on.set()
    await gateway.until(lambda: not gateway.hub.of_user("alice"))


async def test_a_token_whose_key_is_not_known_yet_may_come_back(gateway: Gateway) -> None:
    class Rotating:
        async def key_for(self, kid: str | None, algorithm: str) -> None:
            raise StoreUnavailable(retry_after_ms=3_000)

        async def close(self) -> None: ...

    gateway.server._auth._tokens._key_source = cast(Any, Rotating())
    token = sign({"alg": "RS256", "kid": "new"}, {"sub": "alice", "exp": 9_999_999_999})
    wire = await Wire.open(gateway.port)
    assert (await wire.connect(token))["code"] == "unavailable" and await wire.closed() == 4004
    status, headers, body = await http(gateway.port, "GET", "/v1/inbox", headers={"Authorization": f"Bearer {token}"})
    assert (status, body["error"]["code"], headers["retry-after"]) == (503, "unavailable", "3")


@pytest.mark.parametrize("error", [StoreUnavailable(), Unavailable(), RuntimeError("x")])
async def test_a_resume_that_fails_ends_the_connection_instead_of_leaving_a_gap(
    gateway: Gateway, error: Exception
) -> None:
    gateway.resume.error = error
    wire = await Wire.open(gateway.port)
    await wire.connect(gateway.token(), resume={"c1": 1})
    assert await wire.closed() == 4004


async def test_live_events_wait_for_the_resume_and_what_it_brought_is_not_repeated(gateway: Gateway) -> None:
    reading = asyncio.Event()

    async def catch_up(outbound: Any, resume: dict[str, int], since: int | None, permit: Any) -> None:
        gateway.hub.push("alice", MessageNew(entry(seq_no=7), 7, False, 7))
        await reading.wait()
        outbound.push_now(MessageNew(entry(seq_no=7), None, False, None))
        outbound.push_now(MessageNew(entry(seq_no=8), None, False, None))
        outbound.push_now(resumed("c1", to_seq=8))

    gateway.resume.catch_up = catch_up  # type: ignore[method-assign]
    wire = await gateway.wire(resume={"c1": 6})
    assert (await wire.ask("ping"))["type"] == "pong"  # requests are served meanwhile
    reading.set()
    assert [(await wire.hear())["message"]["seq"] for _ in range(2)] == [7, 8]
    assert (await wire.hear())["type"] == "resumed"
    for seq in (8, 9, 10):  # 8 was on its way while the log was read
        gateway.hub.push("alice", MessageNew(entry(seq_no=seq), seq, False, seq))
    assert [(await wire.hear())["message"]["seq"] for _ in range(2)] == [9, 10]


async def test_a_resume_that_takes_too_long_does_not_gather_events_without_end(gateway: Gateway) -> None:
    never = asyncio.Event()

    async def catch_up(outbound: Any, resume: dict[str, int], since: int | None, permit: Any) -> None:
        await never.wait()

    gateway.resume.catch_up = catch_up  # type: ignore[method-assign]
    wire = await gateway.wire(resume={"c1": 6})
    for _ in range(RESUME_HELD_MAX + 1):
        gateway.hub.push("alice", Typing("c1", "bob", True))
    for seq in range(RESUME_HELD_MAX + 1):
        gateway.hub.push("alice", MessageNew(entry(seq_no=seq), 0, False, 0))
    assert await wire.closed() == 4008


async def test_a_connection_is_announced_before_hello_and_taken_down_after(gateway: Gateway) -> None:
    wire = await gateway.wire()
    assert gateway.registry.leases == ["alice"]
    wire.drop()
    await gateway.until(lambda: gateway.registry.leases == [])
    gateway.registry.error = Unavailable()
    refused = await Wire.open(gateway.port)
    assert (await refused.connect(gateway.token()))["code"] == "unavailable"
    assert await refused.closed() == 4004


async def test_a_storm_of_connects_is_carried_out_a_few_at_a_time(gateway: Gateway) -> None:
    going_on, under_way = asyncio.Event(), 0

    async def totals(user_id: str, found: object = ()) -> Totals:
        nonlocal under_way
        under_way += 1
        await going_on.wait()
        return Totals(1, 1)

    gateway.marks.totals = totals  # type: ignore[method-assign]
    wires = [await Wire.open(gateway.port) for _ in range(CONNECTS_MAX + 8)]
    for n, wire in enumerate(wires):
        wire.say(id=1, type="connect", token=gateway.token(f"u{n}"))
    await gateway.until(lambda: under_way == CONNECTS_MAX)
    going_on.set()
    assert {(await wire.hear())["type"] for wire in wires} == {"hello"}
