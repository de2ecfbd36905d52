"""Nodes that may reach loopback, and an endpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator

import pytest

from tests.support.servers.hook_endpoint import Endpoint, open_endpoint
from tidings.config.settings import Hooks, Settings
from tidings.node import node as nodes
from tidings.node.node import Node


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, hooks=Hooks(private_addresses=True))


@pytest.fixture
async def node(settings: Settings) -> AsyncIterator[Node]:
    async with nodes.open_node(settings) as node:
        yield node


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with open_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
async def conversation(node: Node) -> str:
    view, _ = await node.core.directory.create("alice", kind="group", members=["bob"], name="two")
    return view.head.conversation_id
