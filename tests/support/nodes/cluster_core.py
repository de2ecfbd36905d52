"""A node without sockets on a cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tidings.config.settings import Settings
from tidings.node import graph
from tidings.node.graph import Core, Stores
from tidings.stores.keyspace.cluster import open_cluster
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts import LUA


@asynccontextmanager
async def core_on(settings: Settings, url: str) -> AsyncIterator[Core]:
    """Open the core of a node on the cluster, with the tables of these settings."""
    async with graph.open_core(settings) as plain, AsyncExitStack() as stack:
        keyspace = await open_cluster(url, LUA, plain.clock)
        stack.push_async_callback(keyspace.close)
        stores = {field.name: getattr(plain, field.name) for field in dataclasses.fields(Stores)}
        yield graph.build(Stores(**{**stores, "keyspace": keyspace, "keys": Keys()}))
