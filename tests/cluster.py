"""The real cluster of `tidings torture`, for tests; and a node without sockets on it."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tidings import wiring
from tidings.config import Settings
from tidings.stores.keys import Keys
from tidings.stores.keyspace_cluster import open_cluster
from tidings.torture.cluster import Cluster, Server, binary_of, low_port, running_cluster, wait_until
from tidings.wiring import Core, Stores

__all__ = ["Cluster", "Server", "binary_of", "core_on", "low_port", "running_cluster", "wait_until"]


@asynccontextmanager
async def core_on(settings: Settings, url: str) -> AsyncIterator[Core]:
    """A node without sockets on a cluster, with the tables of these settings."""
    async with wiring.open_core(settings) as plain, AsyncExitStack() as stack:
        keyspace = await open_cluster(url, wiring.LUA, plain.clock)
        stack.push_async_callback(keyspace.close)
        stores = {field.name: getattr(plain, field.name) for field in dataclasses.fields(Stores)}
        yield wiring.build(Stores(**{**stores, "keyspace": keyspace, "keys": Keys()}))
