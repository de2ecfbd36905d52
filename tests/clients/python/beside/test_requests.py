from __future__ import annotations

import pytest

from tidings.testing import TestServer
from tidings_client import Client, MessageNew, ReactionCount
from tidings_client.errors import BadRequest


async def test_reactions_are_set_listed_and_taken_away_over_rest_and_over_the_connection(server: TestServer) -> None:
    alice, bob = (server.server().account(name) for name in ("alice", "bob"))
    name = await alice.direct("bob")
    seq = (await alice.send(name, "hello")).seq
    assert (await bob.react(name, seq, "a/b")).reactions == {"a/b": ReactionCount(1, True)}
    async with Client(server.url, server.token("alice")) as device:
        events = device.events(MessageNew)
        assert (await device.react(name, seq, "👍")).reactions["👍"].mine
        entry = (await anext(events)).message
        assert (entry.kind, entry.target_seq) == ("reaction", seq) and entry.reactions == (("👍", ("alice",), ()),)
        (message,) = [one for one in (await device.page(name)).messages if one.kind == "message"]
        assert message.reactions == {"a/b": ReactionCount(1, False), "👍": ReactionCount(1, True)}
        assert message.reactions_seq == entry.seq
        assert await device.reactions(name, seq) == {"a/b": ["bob"], "👍": ["alice"]}
        assert (await device.unreact(name, seq, "👍")).reactions == {"a/b": ReactionCount(1, False)}
    assert (await bob.unreact(name, seq, "a/b")).reactions == {}


@pytest.mark.parametrize("key", ["", "x" * 33, "👍" * 9])
async def test_a_key_that_is_too_long_is_refused_before_it_is_sent(server: TestServer, key: str) -> None:
    with pytest.raises(BadRequest):
        await server.server().account("alice").react("c1", 1, key)
