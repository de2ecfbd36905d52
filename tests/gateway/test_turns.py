"""Turns: few at a time, and whoever waits for somebody else gives theirs back."""

from __future__ import annotations

import asyncio

from tests.valkey import eventually
from tidings.gateway.turns import Turns


async def test_so_many_have_a_turn_and_the_next_follows() -> None:
    turns, order = Turns(1, 1), list[str]()

    async def work(name: str) -> None:
        async with turns.turn():
            order.append(name)

    async with turns.turn():
        following = asyncio.create_task(work("second"))
        order.append("first")
    await following
    assert order == ["first", "second"]


async def test_a_turn_that_was_given_back_is_another_ones_until_it_is_taken_again() -> None:
    turns = Turns(1, 1)
    async with turns.turn() as first:
        assert first.give_back()
        async with turns.turn():
            again = asyncio.create_task(first.take_again())
            await asyncio.sleep(0)
            assert not again.done()
        await again
    async with asyncio.timeout(1), turns.turn():
        pass


async def test_so_many_wait_without_a_turn_and_no_more() -> None:
    turns = Turns(2, 1)
    async with turns.turn() as first, turns.turn() as second:
        assert (first.give_back(), second.give_back()) == (True, False)
        await first.take_again()
        assert second.give_back()


async def test_who_waits_to_take_a_turn_again_counts_among_those_without_one() -> None:
    turns = Turns(1, 1)
    async with turns.turn() as first:
        assert first.give_back()
        async with turns.turn() as second:
            again = asyncio.create_task(first.take_again())
            await asyncio.sleep(0)
            assert not second.give_back()
        await again
        assert first.give_back()


async def test_who_is_cancelled_without_a_turn_gives_back_nothing_twice() -> None:
    turns, is_lent = Turns(1, 1), asyncio.Event()

    async def wait_for_ever() -> None:
        async with turns.turn() as turn:
            turn.give_back()
            is_lent.set()
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait_for_ever())
    await is_lent.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    async with turns.turn() as turn:
        late = asyncio.create_task(turns.turn().__aenter__())
        await asyncio.sleep(0)
        assert not late.done() and turn.give_back()
        await eventually(late.done)
