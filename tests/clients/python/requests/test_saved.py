"""Saved messages through the client."""

from __future__ import annotations

import pytest

from tidings.testing import TestServer
from tidings_client.errors import BadRequest, NotFound


async def test_a_message_is_saved_listed_and_removed(server: TestServer) -> None:
    alice = server.server().account("alice")
    name = await alice.direct("bob")
    seq = (await alice.send(name, "hello")).seq
    await alice.saved.put(name, seq)
    assert [(one.conversation_id, one.message.text) async for one in alice.saved.all()] == [(name, "hello")]
    await alice.saved.remove(name, seq)
    assert (await alice.saved.page()).saved == []
    with pytest.raises(NotFound):
        await alice.saved.put(name, seq + 1)
    with pytest.raises(BadRequest):
        await alice.saved.put("../x", seq)
