"""The limiter as clients meet it: exactly so many pass, a resend is free, reads have their own, nobody overtakes."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.support.clocks import AheadClock
from tests.support.devices.plain_client import Client, Frame, token_for
from tests.support.gateway.raw_websocket import http
from tidings.bounds import Limit
from tidings.config.settings import Limits, Settings
from tidings.node.node import Node, open_node
from tidings.stores.keyspace.call import plain


class Site:
    """One or more nodes with the same limits, and clients of them."""

    def __init__(self, nodes: list[Node], clock: AheadClock, stack: AsyncExitStack) -> None:
        self.nodes = nodes
        self._clock = clock
        self._stack = stack

    async def elapse(self, seconds: float) -> None:
        """Let time pass for alice's sends: on the nodes, and in the window that the keyspace keeps."""
        self._clock.ahead_s += seconds
        core = self.nodes[0].core
        rate = core.keys.rate("alice", "send")
        for member in await core.keyspace.one(plain(rate, "ZRANGE", rate, 0, -1)):
            await core.keyspace.one(plain(rate, "ZINCRBY", rate, round(-seconds * 1_000_000), member))

    async def connect(self, user_id: str, node: int = 0) -> Client:
        client = await Client(self.nodes[node].port, token_for(self.nodes[node], user_id)).connect()
        self._stack.push_async_callback(client.close)
        return client

    async def group(self, *user_ids: str) -> str:
        view, _ = await self.nodes[0].core.directory.create(user_ids[0], kind="group", members=user_ids[1:])
        return view.head.conversation_id

    async def rest(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, str], Any]:
        headers = {"Authorization": f"Bearer {token_for(self.nodes[0], 'alice')}"}
        return await http(self.nodes[0].port, method, path, body, headers)

    async def send(self, c: str, message_id: str) -> tuple[int, dict[str, str], Any]:
        return await self.rest("POST", f"/v1/conversations/{c}/messages", {"message_id": message_id, "text": "hi"})


Open = Callable[..., Awaitable[Site]]


@pytest.fixture
async def site(settings: Settings) -> AsyncIterator[Open]:
    """`await site(100, 60)`: a node that admits 100 sends in 60 s; `nodes=2`: two that share the stores."""
    async with AsyncExitStack() as stack:

        async def start(count: int, window_s: int, nodes: int = 1) -> Site:
            limits = dataclasses.replace(Limits(), send=Limit(count, window_s))
            limited = dataclasses.replace(settings, limits=limits)
            clock = AheadClock()
            opened = [await stack.enter_async_context(_node(limited, clock, n)) for n in range(nodes)]
            return Site(opened, clock, stack)

        yield start


@asynccontextmanager
async def _node(settings: Settings, clock: AheadClock, n: int) -> AsyncIterator[Node]:
    named = dataclasses.replace(settings, node=dataclasses.replace(settings.node, id=f"node{n}"))
    async with open_node(named, clock) as node:
        yield node


def ask(client: Client, c: str, message_id: str) -> asyncio.Future[Frame]:
    return client.ask("message.send", conversation_id=c, message_id=message_id, text="hi")


def verdicts(frames: list[Frame]) -> list[str]:
    return [str(frame.get("code") or frame["type"]) for frame in frames]


async def whole_history(client: Client, c: str) -> list[Frame]:
    entries: list[Frame] = []
    before: int | None = 1 << 50
    while before is not None:
        page = await client.request("history", conversation_id=c, before_seq=before, limit=100)
        entries += page["messages"]
        before = page["next_before_seq"]
    return entries


# --- how many pass --------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 2])
async def test_of_a_thousand_simultaneous_sends_exactly_a_hundred_pass(site: Open, nodes: int) -> None:
    here = await site(100, 60, nodes)
    cs = [await here.group("alice", f"bob{n}") for n in range(5)]
    clients = [await here.connect("alice", n % nodes) for n in range(10)]
    asked = [ask(client, cs[n % 5], f"m{i}-{n}") for n in range(100) for i, client in enumerate(clients)]
    frames = await asyncio.gather(*asked)
    counted = Counter(verdicts(frames))
    assert counted["ok"] == 100
    assert set(counted) == {"ok", "rate_limited", "held"}
    assert all(frame["temporary"] for frame in frames if frame["type"] == "error")
    waits_ms = [frame["retry_after_ms"] for frame in frames if frame.get("code") == "rate_limited"]
    assert waits_ms and all(0 < wait_ms <= 60_001 for wait_ms in waits_ms)
    kinds = Counter([entry["kind"] for c in cs for entry in await whole_history(clients[0], c)])
    assert kinds["message"] == 100
    if nodes == 1:  # two may each have numbered a send that the budget of both did not reach for
        assert kinds["void"] == 0


async def test_the_default_is_a_hundred_a_minute(site: Open) -> None:
    assert Limits().send == Limit(100, 60)


async def test_after_a_slide_exactly_as_many_pass_as_left_the_window(site: Open) -> None:
    here = await site(10, 40)
    c = await here.group("alice", "bob")
    clients = [await here.connect("alice") for _ in range(20)]
    assert verdicts(await asyncio.gather(*(ask(clients[n], c, f"a{n}") for n in range(4)))) == ["ok"] * 4
    await here.elapse(20)
    frames = await asyncio.gather(*(ask(clients[n], c, f"b{n}") for n in range(20)))
    assert Counter(verdicts(frames)) == {"ok": 6, "rate_limited": 14}
    wait_ms = max(frame.get("retry_after_ms") or 0 for frame in frames)
    assert 0 < wait_ms <= 20_000
    await here.elapse(wait_ms / 1000)
    again = [client for client, frame in zip(clients, frames, strict=True) if frame["type"] == "error"]
    refused = [f"b{n}" for n, frame in enumerate(frames) if frame["type"] == "error"]
    asked = [ask(client, c, id_) for client, id_ in zip(again, refused, strict=True)]
    assert Counter(verdicts(await asyncio.gather(*asked))) == {"ok": 4, "rate_limited": 10}


async def test_a_refused_request_says_when_to_come_back(site: Open) -> None:
    here = await site(3, 60)
    c = await here.group("alice", "bob")
    assert [(await here.send(c, f"m{n}"))[0] for n in range(3)] == [201] * 3
    for n in range(3, 6):  # from the keyspace first, then from memory
        status, headers, answer = await here.send(c, f"m{n}")
        assert (status, answer["error"]["code"], answer["error"]["temporary"]) == (429, "rate_limited", True)
        assert 0 < answer["error"]["retry_after_ms"] <= 60_000
        assert 1 <= int(headers["retry-after"]) <= 60
        limit, remaining, reset = (headers[f"x-ratelimit-{name}"] for name in ("limit", "remaining", "reset"))
        assert (limit, remaining) == ("3", "0")
        assert 1 <= int(reset) <= 60


async def test_reads_marks_and_other_users_have_budgets_of_their_own(site: Open) -> None:
    here = await site(3, 60)
    c = await here.group("alice", "bob")
    alice, bob = await here.connect("alice"), await here.connect("bob")
    assert verdicts(await asyncio.gather(*(ask(alice, c, f"m{n}") for n in range(4)))) == ["ok"] * 3 + ["rate_limited"]
    for type_, fields in {"inbox": {}, "history": {"conversation_id": c}}.items():
        assert (await alice.request(type_, **fields))["type"] == "ok"
    assert (await alice.request("message.delivered", acks={c: 3}))["type"] == "ok"
    assert (await bob.request("message.read", conversation_id=c, up_to_seq=3))["type"] == "ok"
    assert (await bob.say(c, "m1"))["type"] == "ok"
    _, _, budgets = await here.rest("GET", "/v1/rate_limits")
    assert budgets["rate_limits"]["send"]["remaining"] == 0
    assert budgets["rate_limits"]["read"]["remaining"] > 1_000


# --- a resend is free -----------------------------------------------------------------------------


async def test_resends_use_up_nothing(site: Open) -> None:
    here = await site(20, 60)
    c = await here.group("alice", "bob")
    alice = await here.connect("alice")
    for n in range(10):
        assert [(await alice.say(c, f"m{n}"))["duplicate"] for _ in range(3)] == [False, True, True]
    frames = await asyncio.gather(*(ask(alice, c, f"m{n}") for n in range(10, 21)))
    assert verdicts(frames) == ["ok"] * 10 + ["rate_limited"]


async def test_a_stored_message_is_confirmed_however_spent_the_budget_is(site: Open) -> None:
    here = await site(5, 60)
    c = await here.group("alice", "bob")
    alice, tablet = await here.connect("alice"), await here.connect("alice")
    seqs = [(await alice.say(c, f"m{n}"))["seq"] for n in range(5)]
    assert (await tablet.say(c, "m5"))["code"] == "rate_limited"
    for _ in range(2):
        again = [await alice.say(c, f"m{n}") for n in range(5)]
        assert [(one["type"], one["seq"], one["duplicate"]) for one in again] == [("ok", seq, True) for seq in seqs]
        status, _, answer = await here.send(c, "m2")
        assert (status, answer["seq"], answer["duplicate"]) == (200, seqs[2], True)
    assert (await here.send(c, "m6"))[0] == 429


# --- nobody overtakes -----------------------------------------------------------------------------


async def test_what_was_refused_is_not_overtaken(site: Open) -> None:
    here = await site(3, 40)
    c = await here.group("alice", "bob")
    alice = await here.connect("alice")
    frames = await asyncio.gather(*(ask(alice, c, f"m{n}") for n in range(6)))
    assert verdicts(frames) == ["ok"] * 3 + ["rate_limited", "held", "held"]
    assert [frame["temporary"] for frame in frames[3:]] == [True] * 3
    assert (await alice.say(c, "m4"))["code"] == "held"
    assert (await alice.say(c, "m6"))["code"] == "held"
    await here.elapse(frames[3]["retry_after_ms"] / 1000)
    assert (await alice.say(c, "m5"))["code"] == "held", "there is room, but it is not its turn"
    said = [await alice.say(c, f"m{n}") for n in (3, 4, 5)]
    assert [(one["type"], one["seq"]) for one in said] == [("ok", 4), ("ok", 5), ("ok", 6)]
    await here.elapse(40)
    assert (await alice.say(c, "m7"))["code"] == "held", "m6 still waits"
    assert [(await alice.say(c, id_))["seq"] for id_ in ("m6", "m7", "m8")] == [7, 8, 9]


async def test_what_is_given_up_holds_up_nothing(site: Open) -> None:
    here = await site(2, 40)
    c = await here.group("alice", "bob")
    alice = await here.connect("alice")
    frames = await asyncio.gather(*(ask(alice, c, f"m{n}") for n in range(5)))
    assert verdicts(frames) == ["ok", "ok", "rate_limited", "held", "held"]
    await here.elapse(40)
    alice.send({"type": "message.abandon", "conversation_id": c, "message_id": "m2"})
    given_up = await alice.request("message.abandon", conversation_id=c, message_id="m3")
    assert given_up["type"] == "ok"
    said = await alice.say(c, "m4")
    assert (said["type"], said["seq"]) == ("ok", 3)


async def test_a_hold_is_of_one_device_and_one_conversation(site: Open) -> None:
    here = await site(2, 40)
    c, other = await here.group("alice", "bob"), await here.group("alice", "carol")
    alice, tablet = await here.connect("alice"), await here.connect("alice")
    frames = await asyncio.gather(*(ask(alice, c, f"m{n}") for n in range(4)))
    assert verdicts(frames) == ["ok", "ok", "rate_limited", "held"]
    await here.elapse(40)
    assert (await alice.say(other, "m9"))["type"] == "ok", "another conversation"
    assert (await tablet.say(c, "t1"))["type"] == "ok", "another device"
    await here.elapse(40)
    status, _, _ = await here.send(c, "r1")
    assert status == 201, "REST is never held"
    assert (await alice.say(c, "m4"))["code"] == "held"
    await alice.close()
    fresh = await here.connect("alice")
    assert (await fresh.say(c, "m4"))["type"] == "ok", "the hold went with its connection"
