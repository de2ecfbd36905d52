"""Fixtures of every test: one real Valkey for the whole run, a prefix and a SQLite file of its own for each test, and
whole nodes on them.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck

from tests.support.devices.plain_client import Client, token_for
from tests.support.messaging.faulty_stores import FaultyNode, open_faulty
from tests.support.messaging.two_nodes import telling
from tidings.bounds import Limit
from tidings.config.settings import Auth, Limits, Settings
from tidings.node import graph
from tidings.node import node as nodes
from tidings.node.node import Node
from tidings.stores.tables.dynamodb.client import bounds as dynamodb_bounds
from tidings.stores.tables.postgres import adapter as postgres_adapter
from tidings.stores.tables.postgres.server import database as postgres_database
from tidings_proof.world.valkey import ValkeyProcess, start_valkey

SECRET = "a-secret-of-the-tests-that-is-long-enough"
_prefixes = itertools.count(1)

# One profile for all properties. No deadline and no health check measures the machine: a slow one proves as much. A
# property may use a fixture of its test, and a contract suite runs the same property for several adapters.
hypothesis.settings.register_profile(
    "tidings",
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
    ],
)
hypothesis.settings.load_profile("tidings")


@pytest.fixture(autouse=True)
def logs_stay_as_they_were() -> Iterator[None]:
    """A verb that a test runs in this process sets up the root logger: the tests after it would log nothing."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture(scope="session", autouse=True)
def dynamodb_is_waited_for() -> Iterator[None]:
    """Wait for an answer of DynamoDB Local however busy the machine is. A test of a deadline sets its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamodb_bounds, "DEADLINE_S", 120.0)
        patch.setattr(dynamodb_bounds, "ATTEMPT_S", 60.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def postgres_is_waited_for() -> Iterator[None]:
    """Wait for an answer of PostgreSQL however busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (postgres_adapter, postgres_database):
            patch.setattr(module, "COMMAND_S", 60.0)
        yield


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
        limits=dataclasses.replace(Limits(), send=Limit(1_000_000, 60), create=None),
    )


@pytest.fixture
async def core(settings: Settings) -> AsyncIterator[graph.Core]:
    """A node without sockets."""
    async with graph.open_core(settings) as core:
        yield core


@pytest.fixture
async def node(settings: Settings) -> AsyncIterator[Node]:
    """A whole node, listening on a free port."""
    async with nodes.open_node(settings) as node:
        yield node


# --- nodes `a` and `b` share one keyspace and one SQLite file; either may meet a fault ---------------


@pytest.fixture
async def a(settings: Settings) -> AsyncIterator[FaultyNode]:
    async with open_faulty(settings, "a") as node:
        yield node


@pytest.fixture
async def b(settings: Settings) -> AsyncIterator[FaultyNode]:
    async with open_faulty(settings, "b") as node:
        yield node


@pytest.fixture
async def two(a: FaultyNode, b: FaultyNode) -> AsyncIterator[None]:
    """The nodes a and b know each other, and each hears what the other has for it."""
    async with telling(a, b):
        yield


@pytest.fixture
async def direct(a: FaultyNode) -> str:
    """alice and bob; both have looked, so their counts are warm."""
    view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
    await a.unread("alice"), await a.unread("bob")
    return view.head.conversation_id


@pytest.fixture
async def group(a: FaultyNode) -> str:
    """alice owns it; bob and carol are in it; all have looked."""
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob", "carol"], name="three")
    for user_id in ("alice", "bob", "carol"):
        await a.unread(user_id)
    return view.head.conversation_id


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
