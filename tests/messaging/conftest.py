"""Nodes `a` and `b` share one keyspace and one SQLite file; either may be told to meet a fault."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.messaging.faulty import FaultyNode, open_faulty
from tidings.config import Settings


@pytest.fixture
async def a(settings: Settings) -> AsyncIterator[FaultyNode]:
    async with open_faulty(settings, "a") as node:
        yield node


@pytest.fixture
async def b(settings: Settings) -> AsyncIterator[FaultyNode]:
    async with open_faulty(settings, "b") as node:
        yield node


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
