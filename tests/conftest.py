"""What every test may use: one real Valkey for the whole run, a prefix and a SQLite file of its own for each test, and
whole nodes on them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.client import Client, token_for
from tests.valkey import ValkeyProcess, start_valkey
from tidings import node as nodes
from tidings import wiring
from tidings.config import Auth, Limits, Settings
from tidings.config_values import Limit
from tidings.node import Node

SECRET = "a-secret-of-the-tests-that-is-long-enough"
_prefixes = itertools.count(1)


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyProcess]:
    """One server for all tests that do not kill theirs."""
    server = start_valkey(tmp_path_factory.mktemp("valkey"))
    yield server
    server.stop()


@pytest.fixture
def settings(valkey: ValkeyProcess, tmp_path: Path) -> Settings:
    """A node of its own on the shared server; a generous send budget, so that only limiter tests meet it."""
    return dataclasses.replace(
        Settings(),
        port=0,
        data=tmp_path,
        keyspace=f"{valkey.url}?prefix=t{next(_prefixes)}.",
        tables=f"sqlite://{tmp_path}/tidings.db",
        auth=Auth(secret=SECRET),
        limits=dataclasses.replace(Limits(), send=Limit(1_000_000, 60)),
    )


@pytest.fixture
async def core(settings: Settings) -> AsyncIterator[wiring.Core]:
    """A node without sockets."""
    async with wiring.open_core(settings) as core:
        yield core


@pytest.fixture
async def node(settings: Settings) -> AsyncIterator[Node]:
    """A whole node, listening on a free port."""
    async with nodes.open_node(settings) as node:
        yield node


Connect = Callable[..., Awaitable[Client]]


@pytest.fixture
async def connect(node: Node) -> AsyncIterator[Connect]:
    """`await connect("alice")`: a connected client of the node, closed at the end."""
    async with AsyncExitStack() as stack:

        async def connect(user_id: str, **fields: object) -> Client:
            client = Client(node.port, token_for(node, user_id))
            await client.connect(**fields)
            stack.push_async_callback(client.close)
            return client

        yield connect
