"""Withdraw: all reactions of a person go, in numbered entries, and those of others stay."""

from __future__ import annotations

from tests.support.messaging.faulty_stores import FaultyNode
from tidings.messaging.reactions.withdraw import Withdraw


async def test_reactions_of_a_person_who_left_are_taken_back(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1", "hello")
    for user_id, key in (("bob", "👍"), ("bob", "🎉"), ("carol", "👍")):
        await a.core.reactions.react(user_id, group, 1, key, is_on=True)
    await a.core.directory.remove("bob", group, "bob")
    withdraw = Withdraw(a.core.summaries, a.tables.records, a.core.sends, a.clock)
    assert await withdraw.all("bob", group) == 2
    assert await withdraw.all("bob", group) == 0
    summary, _ = await a.core.summaries.read(group, 1)
    assert summary.reactions == {"👍": ["carol"]}
    last = (await a.log(group))[-1]
    assert last.content is not None and last.content.reactions == (("👍", (), ("bob",)), ("🎉", (), ("bob",)))
    assert await a.wrong() == []
