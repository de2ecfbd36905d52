"""The actions of an admin on whole nodes: each has its effect, is audited, and is for admins alone."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest

from tests.support.devices.operator_client import Operator, operator
from tests.support.devices.plain_client import Client, token_for
from tests.support.gateway.raw_websocket import http
from tests.support.waiting import eventually
from tidings.config.settings import Node as NodeSettings
from tidings.config.settings import Settings
from tidings.node.node import Node, open_node

DEEDS = ("users/ann/kick", "nodes/one/drain", "users/ann/token", "/v1/users/ann/revoke")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, node=NodeSettings(id="one"), dev=True)


@pytest.fixture
async def other(node: Node, settings: Settings) -> AsyncIterator[Node]:
    """A second node on the same stores."""
    async with open_node(dataclasses.replace(settings, node=NodeSettings(id="other"))) as other:
        yield other


async def audited(ops: Operator, action: str) -> dict[str, object]:
    """The entry of this action, once it is written."""
    async with asyncio.timeout(60):
        while True:
            for entry in (await ops.look("audit"))["entries"]:
                if entry["event"]["class"] == action:
                    event: dict[str, object] = entry["event"]
                    return event
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("path", DEEDS)
async def test_only_an_admin_may_act(node: Node, path: str) -> None:
    reader = await operator(node, "readonly")
    assert (await reader.ask("POST", path))[0] == 403
    bearer = {"Authorization": f"Bearer {token_for(node, 'ann')}"}
    whole = path if path.startswith("/") else f"/v1/admin/{path}"
    assert (await http(node.port, "POST", whole, None, bearer))[0] == 403
    assert (await http(node.port, "POST", whole))[0] == 401
    kinds = {entry["event"]["kind"] for entry in (await reader.look("audit"))["entries"]}
    assert kinds <= {"sign_in"}  # refusals may be written by now; an action would be too


async def test_a_kick_closes_the_sockets_of_a_user_on_every_node(node: Node, other: Node) -> None:
    ops = await operator(node)
    here = await Client(node.port, token_for(node, "ann")).connect(device="phone")
    there = await Client(other.port, token_for(node, "ann")).connect(device="laptop")
    somebody = await Client(other.port, token_for(node, "bob")).connect()
    assert await ops.ask("POST", "users/ann/kick") == (200, {"user_id": "ann", "connections": 2})
    await eventually(lambda: here.close_code == there.close_code == 4014)
    assert somebody.close_code is None
    again = await Client(node.port, token_for(node, "ann")).connect()  # nothing was revoked
    event = await audited(ops, "user.kick")
    assert (event["by"], event["user_id"], event["detail"]) == ("ops-admin", "ann", "2 connections")
    for client in (again, somebody):
        await client.close()


async def test_another_node_is_drained_over_the_bus(node: Node, other: Node) -> None:
    ops, asked = await operator(node), asyncio.Event()
    other.core.events.leave_requested.add(asked.set)
    node.core.events.leave_requested.add(lambda: pytest.fail("not this one"))
    assert await ops.ask("POST", "nodes/other/drain") == (202, {"node_id": "other"})
    async with asyncio.timeout(60):
        await asked.wait()
    assert (await audited(ops, "node.drain"))["detail"] == "other"


async def test_a_node_can_be_told_to_drain_itself(node: Node) -> None:
    ops, asked = await operator(node), asyncio.Event()
    node.core.events.leave_requested.add(asked.set)
    assert (await ops.ask("POST", "nodes/one/drain"))[0] == 202
    async with asyncio.timeout(60):
        await asked.wait()


async def test_a_node_that_nobody_knows_is_not_found(node: Node) -> None:
    ops = await operator(node)
    assert (await ops.ask("POST", "nodes/nobody/drain"))[0] == 404
    assert (await ops.look("audit"))["entries"] == []


async def test_a_token_is_minted_in_dev_and_it_works(node: Node) -> None:
    ops = await operator(node)
    status, body = await ops.ask("POST", "users/ann/token")
    assert status == 200
    async with Client(node.port, body["token"]):
        assert (await ops.look("users/ann"))["is_online"]
    event = await audited(ops, "user.token")
    assert event["user_id"] == "ann" and body["token"] not in str(event)


async def test_without_dev_nobody_is_given_a_token(settings: Settings) -> None:
    async with open_node(dataclasses.replace(settings, dev=False)) as node:
        ops = await operator(node)
        assert (await ops.ask("POST", "users/ann/token"))[0] == 404
