"""Pins through the client: set, told to the others, listed, taken away."""

from __future__ import annotations

import pytest

from tidings.testing import TestServer
from tidings_client import Client, MessageNew
from tidings_client.errors import NotFound


async def test_a_message_is_pinned_listed_and_unpinned(server: TestServer) -> None:
    alice = server.server().account("alice")
    name = await alice.direct("bob")
    seq = (await alice.send(name, "hello")).seq
    async with Client(server.url, server.token("bob")) as bob:
        events = bob.events(MessageNew)
        assert (await alice.pins.put(name, seq)).pinned
        entry = (await anext(events)).message
        assert (entry.kind, entry.target_seq, entry.pinned) == ("pin", seq, True)
        (one,) = await bob.pins.all(name)
        assert (one.pinned_by, one.message.text, one.message.pinned) == ("alice", "hello", True)
        assert not (await bob.pins.remove(name, seq)).pinned
        assert await bob.pins.all(name) == []
        with pytest.raises(NotFound):
            await bob.pins.put(name, seq + 9)
