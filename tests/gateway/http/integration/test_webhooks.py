"""Webhooks over REST: made with a secret that is shown once, listed, changed, replayed and removed by an admin key."""

from __future__ import annotations

import asyncio
import dataclasses
import http.client
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.devices.plain_client import token_for
from tests.support.servers.hook_endpoint import Endpoint, open_endpoint
from tidings.config.settings import Hooks, Settings
from tidings.gateway.auth import hash_api_key
from tidings.model import Content
from tidings.node import node as nodes
from tidings.node.node import Node
from tidings.stores.tables.values import ApiKey


@pytest.fixture
async def node(settings: Settings) -> AsyncIterator[Node]:
    async with nodes.open_node(dataclasses.replace(settings, hooks=Hooks(private_addresses=True))) as node:
        for role in ("admin", "readonly"):
            key = ApiKey(key_hash=hash_api_key(role), name=role, role=role, created_ms=0)
            await node.core.tables.accounts.put_api_key(key)
        yield node


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with open_endpoint() as endpoint:
        yield endpoint


async def rest(node: Node, method: str, path: str, body: Any = None, key: str | None = "admin") -> tuple[int, Any]:
    def ask() -> tuple[int, Any]:
        link = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
        headers = {"X-Api-Key": key} if key else {"Authorization": f"Bearer {token_for(node, 'alice')}"}
        link.request(method, path, None if body is None else json.dumps(body), headers)
        answer = link.getresponse()
        raw = answer.read()
        link.close()
        return answer.status, json.loads(raw) if raw else None

    return await asyncio.to_thread(ask)


async def test_a_webhook_is_made_used_changed_and_removed(node: Node, endpoint: Endpoint) -> None:
    view, _ = await node.core.directory.create("alice", kind="group", members=["bob"])
    id_ = view.head.conversation_id
    asked = {"url": endpoint.url, "kinds": ["message"], "conversation_ids": [id_], "from": "start"}
    status, made = await rest(node, "POST", "/v1/webhooks", asked)
    assert status == 201 and made["secret"].startswith("whs_")
    one = f"/v1/webhooks/{made['webhook_id']}"
    await node.core.sends.send("alice", id_, None, Content("hi"))
    await endpoint.until(lambda: endpoint.posts)
    assert endpoint.posts[0].is_signed_with(made["secret"])

    listed = (await rest(node, "GET", "/v1/webhooks", key="readonly"))[1]["webhooks"]
    assert listed == [{name: value for name, value in made.items() if name != "secret"}]
    changed = (await rest(node, "PATCH", one, {"kinds": ["edit"]}))[1]
    assert (changed["kinds"], changed["conversation_ids"], changed["url"]) == (["edit"], [id_], endpoint.url)
    async with asyncio.timeout(60):
        while (state := (await rest(node, "GET", one + "/state"))[1])["last_answer"] is None or state["behind_by"]:
            await asyncio.sleep(0.02)
    assert state["last_answer"]["status"] == 200 and state["oldest_at"] is None and "paused" not in state

    assert (await rest(node, "PATCH", one, {"kinds": ["message"]}))[0] == 200
    count = len(endpoint.posts)
    assert (await rest(node, "POST", one + "/replay", {"conversation_id": id_, "from_seq": 1}))[0] == 202
    await endpoint.until(lambda: len(endpoint.posts) > count)
    assert endpoint.posts[-1].seqs == [1]
    assert (await rest(node, "DELETE", one))[0] == 204
    assert (await rest(node, "GET", one + "/state"))[0] == 404


async def test_only_an_admin_key_changes_webhooks(node: Node) -> None:
    asked = {"url": "https://example.org/"}
    for key in (None, "readonly"):
        assert (await rest(node, "POST", "/v1/webhooks", asked, key))[0] == 403
    assert (await rest(node, "GET", "/v1/webhooks", key=None))[0] == 403


@pytest.mark.parametrize(
    "asked",
    [
        {"url": "ftp://example.org/"},
        {"url": "https://example.org/", "kinds": ["nonsense"]},
        {"url": "https://example.org/", "from": "never"},
        {"url": "https://example.org/", "conversations": ["c1"]},
    ],
)
async def test_a_wrong_webhook_is_refused(node: Node, asked: dict[str, Any]) -> None:
    assert (await rest(node, "POST", "/v1/webhooks", asked))[0] == 400


async def test_a_private_address_is_refused_by_default(settings: Settings) -> None:
    async with nodes.open_node(settings) as node:
        key = ApiKey(key_hash=hash_api_key("admin"), name="admin", role="admin", created_ms=0)
        await node.core.tables.accounts.put_api_key(key)
        status, body = await rest(node, "POST", "/v1/webhooks", {"url": "https://127.0.0.1/"})
        assert status == 400 and "not public" in body["error"]["message"]
