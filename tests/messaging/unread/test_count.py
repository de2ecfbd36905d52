"""The rule of unread, applied to the tables."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.errors import NotFound
from tidings.messaging.unread.count import Count
from tidings.model import Content


async def test_what_is_unread_and_what_mentions_the_user_are_counted(a: FaultyNode, group: str) -> None:
    for mentions in ((), ("bob",), ("carol", "bob")):
        await a.core.sends.send("alice", group, None, Content("x", mentions=mentions))
    await a.core.sends.send("bob", group, None, Content("mine", mentions=("bob",)))
    count = Count(a.core.tables, a.core.scripts, a.clock)
    bob = await count.one("bob", group)
    assert (bob.unread, bob.mentions) == ([3, 2, 1], [3, 2])
    assert (bob.mark.count, bob.mark.first, bob.mark.mentions, bob.mark.first_mention) == (3, 1, 2, 2)
    carol = await count.one("carol", group)
    assert (carol.unread, carol.mentions) == ([4, 3, 2, 1], [3])
    assert [one async for chunk in count.all("bob") for one in chunk] == [bob]


async def test_a_conversation_that_the_tables_do_not_have_is_not_found(a: FaultyNode) -> None:
    count = Count(a.core.tables, a.core.scripts, a.clock)
    with pytest.raises(NotFound):
        await count.one("bob", "nowhere")
