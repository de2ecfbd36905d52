"""A node with a group that shares files."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.sharing import Sharing, sharing


@pytest.fixture
async def shared() -> AsyncIterator[Sharing]:
    async with sharing() as made:
        yield made
