"""Your own test suite with a whole real node in it: start it per test, it takes a tenth of a second.

pip install pytest pytest-asyncio
pytest --asyncio-mode=auto examples/test_with_a_real_server.py
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tidings import testing


@pytest.fixture
async def server() -> AsyncIterator[testing.TestServer]:
    async with testing.server() as running:
        yield running


async def test_bob_sees_what_alice_wrote(server: testing.TestServer) -> None:
    alice, bob = await server.client("alice"), await server.client("bob")
    conversation_id = await alice.direct("bob")
    messages = bob.messages(conversation_id)
    await alice.send(conversation_id, "hello")
    message = await asyncio.wait_for(anext(messages), 60)
    assert (message.sender_id, message.text) == ("alice", "hello")
    assert (await bob.mark_read(conversation_id)).unread_count == 0
