"""What every adapter of the People port must do."""

from __future__ import annotations

import asyncio

from tests.contracts import fresh
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.values import Block, Preferences


class PeopleContract:
    async def test_a_block_is_set_once_and_found_from_both_sides(self, tables: Tables) -> None:
        alice, bob, carol = (fresh(name) for name in ("alice", "bob", "carol"))
        assert [await tables.people.block(Block(alice, bob, since_ms)) for since_ms in (5, 6)] == [True, False]
        await tables.people.block(Block(carol, bob, 7))
        assert await tables.people.blocks_of(alice) == [Block(alice, bob, 5)]
        assert await tables.people.blocks_of(bob) == []
        found = await tables.people.blockers_of([bob, alice, bob])
        assert found == {bob: frozenset((alice, carol)), alice: frozenset()}

    async def test_a_block_is_removed_once_and_alone(self, tables: Tables) -> None:
        alice, bob, carol = (fresh(name) for name in ("alice", "bob", "carol"))
        for blocked_id in (carol, bob):
            await tables.people.block(Block(alice, blocked_id, 5))
        assert [one.blocked_id for one in await tables.people.blocks_of(alice)] == sorted((bob, carol))
        assert [await tables.people.unblock(alice, bob) for _ in range(2)] == [True, False]
        assert await tables.people.blocks_of(alice) == [Block(alice, carol, 5)]
        assert await tables.people.blockers_of([bob, carol]) == {bob: frozenset(), carol: frozenset((alice,))}

    async def test_a_block_that_is_set_many_times_at_once_is_one(self, tables: Tables) -> None:
        alice, bob = fresh("alice"), fresh("bob")
        answers = await asyncio.gather(*(tables.people.block(Block(alice, bob, n)) for n in range(5)))
        assert sum(answers) == 1 and len(await tables.people.blocks_of(alice)) == 1

    async def test_preferences_are_read_back_as_a_whole(self, tables: Tables) -> None:
        alice, bob = fresh("alice"), fresh("bob")
        assert await tables.people.preferences([alice]) == {}
        for chosen in (Preferences(who_may_write="shared", who_may_add="nobody"), Preferences()):
            await tables.people.put_preferences(alice, chosen)
            assert await tables.people.preferences([alice, bob, alice]) == {alice: chosen}
