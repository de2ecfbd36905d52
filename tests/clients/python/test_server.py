from __future__ import annotations

import asyncio

import pytest

from tidings.testing import TestServer
from tidings_client import Server, Stopped
from tidings_client.errors import Unauthorized
from tidings_client.values import MessageNew


async def test_a_backend_acts_for_any_user(server: TestServer) -> None:
    bob = await server.client("bob")
    heard = bob.events(MessageNew)
    async with Server(server.url, server.api_key) as backend:
        await backend.put_user("alice", name="Alice")
        assert (await backend.user("alice")).name == "Alice"
        alice = backend.account("alice")
        await alice.send(await alice.direct("bob"), "your order has shipped")
    event = await asyncio.wait_for(anext(heard), 60)
    assert (event.message.sender_id, event.message.text) == ("alice", "your order has shipped")


async def test_revoking_a_user_stops_their_clients(server: TestServer) -> None:
    bob = await server.client("bob")
    events = bob.events()
    assert (await server.server().revoke("bob")).user_id == "bob"
    with pytest.raises(Stopped, match="4503"):
        async with asyncio.timeout(60):
            async for _ in events:
                pass
    with pytest.raises(Stopped):
        await bob.send(await server.server().account("bob").direct("alice"), "too late")


async def test_a_wrong_key_is_refused(server: TestServer) -> None:
    async with Server(server.url, "tk_wrong") as backend:
        with pytest.raises(Unauthorized):
            await backend.user("alice")
