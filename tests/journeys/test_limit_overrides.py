"""Limits as operators meet them: exceptions hold on every node at once, and the audit stream knows every reject."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tests.conftest import SECRET
from tests.support.devices.plain_client import Client, Frame, token_for
from tests.support.gateway.raw_websocket import http
from tidings.bounds import Limit
from tidings.config.settings import Limits, Settings
from tidings.node.node import Node, open_node
from tidings.operators.audit.reader import Rejects
from tidings.stores.tables.values import ApiKey

EVERY = "/v1/rate_limits/overrides"


class Site:
    """Two nodes that share the stores, with an admin key and a readonly key."""

    def __init__(self, nodes: list[Node], stack: AsyncExitStack) -> None:
        self.nodes = nodes
        self._stack = stack

    async def key(self, role: Any, name: str) -> str:
        key_hash = hashlib.sha256(name.encode()).hexdigest()
        key = ApiKey(key_hash=key_hash, name=name, role=role, created_ms=1)
        await self.nodes[0].core.tables.accounts.put_api_key(key)
        return name

    async def rest(
        self, node: int, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await http(self.nodes[node].port, method, path, body, named)

    def bearer(self, user_id: str, **claims: Any) -> str:
        now_s = self.nodes[0].core.clock.now_ms() // 1000
        claims = {"sub": user_id, "exp": now_s + 600, **claims}
        return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET))

    async def connect(self, user_id: str, node: int = 0, **claims: Any) -> Client:
        client = await Client(self.nodes[node].port, self.bearer(user_id, **claims)).connect()
        self._stack.push_async_callback(client.close)
        return client

    async def group(self, *user_ids: str) -> str:
        view, _ = await self.nodes[0].core.directory.create(user_ids[0], kind="group", members=user_ids[1:])
        return view.head.conversation_id

    async def known(self, node: int, count: int) -> None:
        """Until the node has heard that there are so many overrides: seconds, by itself."""
        limits = self.nodes[node].core.limiting.limiter.limits
        async with asyncio.timeout(60):
            while len(limits._overrides) != count:
                await asyncio.sleep(0.02)

    async def audited(self, wanted: int) -> None:
        """Until the sums have so many rejects."""
        reader = self.nodes[0].core.limiting.reader
        async with asyncio.timeout(60):
            while sum(one.count for one in await reader.top_rejects(5)) < wanted:
                await asyncio.sleep(0.05)


@pytest.fixture
async def site(settings: Settings) -> AsyncIterator[Site]:
    limits = dataclasses.replace(Limits(), send=Limit(10, 60), read=Limit(1_000, 60))
    async with AsyncExitStack() as stack:
        nodes = []
        for number in range(2):
            named = dataclasses.replace(settings.node, id=f"node{number}")
            limited = dataclasses.replace(settings, limits=limits, node=named)
            nodes.append(await stack.enter_async_context(open_node(limited)))
        yield Site(nodes, stack)


async def flood(client: Client, c: str, count: int, prefix: str) -> Counter[str]:
    asked = [client.ask("message.send", conversation_id=c, message_id=f"{prefix}{n}", text="hi") for n in range(count)]
    frames: list[Frame] = await asyncio.gather(*asked)
    return Counter(str(frame.get("code") or frame["type"]) for frame in frames)


async def test_an_override_set_on_one_node_holds_on_the_other_within_seconds(site: Site) -> None:
    key, c = await site.key("admin", "backend"), await site.group("alice", "bob")
    alice = await site.connect("alice", node=1)
    assert (await flood(alice, c, 12, "a"))["ok"] == 10
    answer = await site.rest(0, "PUT", f"{EVERY}/user/alice/send", {"limit": 15, "window_s": 60}, X_Api_Key=key)
    assert answer[0] == 200
    await site.known(1, 1)
    fresh = await site.connect("alice", node=1)  # without a hold
    assert (await flood(fresh, c, 20, "b"))["ok"] == 5
    seen = (await site.rest(1, "GET", "/v1/rate_limits", Authorization=f"Bearer {site.bearer('alice')}"))[2]
    assert (seen["rate_limits"]["send"]["limit"], seen["rate_limits"]["send"]["remaining"]) == (15, 0)
    assert 0 < seen["rate_limits"]["send"]["reset_ms"] <= 60_001
    assert (await site.rest(1, "DELETE", f"{EVERY}/user/alice/send", X_Api_Key=key))[0] == 204
    await site.known(0, 0)


async def test_a_role_in_the_token_has_the_limit_of_the_role_over_socket_and_rest(site: Site) -> None:
    key, c = await site.key("admin", "backend"), await site.group("robot", "bob")
    await site.rest(0, "PUT", f"{EVERY}/role/bot/send", {"limit": 30, "window_s": 60}, X_Api_Key=key)
    robot = await site.connect("robot", role="bot")
    assert (await flood(robot, c, 25, "a"))["ok"] == 25
    body = {"message_id": "rest", "text": "hi"}
    path = f"/v1/conversations/{c}/messages"
    sent = await site.rest(0, "POST", path, body, Authorization=f"Bearer {site.bearer('robot', role='bot')}")
    assert sent[0] == 201
    refused = await site.rest(
        0, "POST", path, {**body, "message_id": "no"}, Authorization=f"Bearer {site.bearer('robot')}"
    )
    assert refused[0] == 429 and refused[1]["x-ratelimit-limit"] == "10"


async def test_a_key_with_an_override_pays_itself(site: Site) -> None:
    key, worker = await site.key("admin", "backend"), await site.key("admin", "worker")
    await site.rest(0, "PUT", f"{EVERY}/key/worker/http", {"limit": 3, "window_s": 60}, X_Api_Key=key)
    statuses = [(await site.rest(0, "GET", "/v1/inbox", X_Api_Key=worker, X_User_Id=f"user{n}"))[0] for n in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    own = (await site.rest(0, "GET", "/v1/rate_limits", X_Api_Key=key))[2]["rate_limits"]
    assert own["http"]["limit"] == 6_000 and list(own) == ["http"]


async def test_neither_a_user_nor_a_readonly_key_can_change_a_limit(site: Site) -> None:
    viewer = await site.key("readonly", "viewer")
    place = f"{EVERY}/user/mallory/send"
    token = site.bearer("mallory", role="admin")
    for headers, status in (
        ({"Authorization": f"Bearer {token}"}, 403),
        ({"Authorization": f"Bearer {token}", "X_User_Id": "admin"}, 403),
        ({"X_Api_Key": viewer}, 403),
        ({"X_Api_Key": "made-up"}, 401),
        ({}, 401),
    ):
        for method, body in (("PUT", {"limit": None}), ("DELETE", None)):
            assert (await site.rest(0, method, place, body, **headers))[0] == status
    assert (await site.rest(0, "GET", EVERY, Authorization=f"Bearer {token}"))[0] == 403
    assert await site.nodes[0].core.tables.overrides.all() == []


async def test_the_audit_adds_up_to_the_rejects_exactly(site: Site) -> None:
    c = await site.group("alice", "bob", "mallory")
    clients = {name: await site.connect(name, node=n % 2) for n, name in enumerate(("mallory", "bob", "alice"))}
    counts = await asyncio.gather(
        flood(clients["mallory"], c, 300, "m"), flood(clients["bob"], c, 40, "b"), flood(clients["alice"], c, 8, "a")
    )
    resent = await flood(clients["alice"], c, 8, "a")  # a resend is no reject
    assert resent["ok"] == 8
    wanted = {
        (name, code): count
        for name, found in zip(clients, counts, strict=True)
        for code, count in found.items()
        if code != "ok"
    }
    body = {"message_id": "over-rest", "text": "hi"}
    token = token_for(site.nodes[1], "mallory")
    assert (await site.rest(1, "POST", f"/v1/conversations/{c}/messages", body, Authorization=f"Bearer {token}"))[
        0
    ] == 429
    wanted["mallory", "rate_limited"] = wanted.get(("mallory", "rate_limited"), 0) + 1
    await site.audited(sum(wanted.values()))
    top = await site.nodes[1].core.limiting.reader.top_rejects(5)
    classes = {"rate_limited": "send", "held": "held"}
    assert set(top) == {Rejects(name, classes[code], count) for (name, code), count in wanted.items()}
    metric: Counter[str] = Counter()
    for node in site.nodes:
        for class_name, count in node.core.metrics.rate_limited.items():
            metric[class_name] += int(count.value)
    by_code: Counter[str] = Counter()
    for (_, code), refusals in wanted.items():
        by_code[classes[code]] += refusals
    assert +metric == by_code


async def test_who_was_there_today_is_counted(site: Site) -> None:
    await site.connect("alice")
    await site.rest(1, "GET", "/v1/inbox", Authorization=f"Bearer {site.bearer('bob')}")
    for node in site.nodes:
        await node.core.limiting.activity.flush()
    activity = site.nodes[0].core.limiting.activity
    [(today, count)] = await activity.daily_actives(1)
    assert count == 2
    assert [await activity.active_days(name) for name in ("alice", "bob", "carol")] == [[today], [today], []]
