"""What the tests of the client use: a whole node, and a server that says only what a test tells it to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.devices.scripted_server import ScriptedServer, open_scripted
from tidings import testing
from tidings.testing import TestServer


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with testing.server() as running:
        yield running


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedServer]:
    async with open_scripted() as running:
        yield running
