"""Who is typing: told to those who watch, over by itself."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.clocks import AheadClock
from tests.support.messaging.presence_nodes import open_presence_node, open_presence_nodes
from tests.support.waiting import eventually
from tidings.bounds import TYPING_AGAIN_S
from tidings.config.settings import Settings
from tidings.errors import NotFound
from tidings.pushes import Typing
from tidings.routing.bus import Signal


async def test_typing_is_seen_by_members_who_watch_and_by_nobody_else(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        crew, other = await node.group("alice", "bob", "carol"), await node.group("carol", "bob")
        bob, carol = await node.watcher("bob", crew), await node.watcher("carol", other)
        tablet = await node.watcher("alice", crew)
        await node.typing_status.typing("alice", crew, True)
        await node.typing_status.typing("alice", crew, False)
        assert bob.typing() == [("alice", True), ("alice", False)]
        assert (carol.typing(), tablet.typing()) == ([], [])


async def test_typing_is_seen_on_another_node(settings: Settings) -> None:
    async with open_presence_nodes(settings) as (here, there):
        crew = await here.group("alice", "bob")
        bob, tablet = await there.watcher("bob", crew), await there.watcher("alice", crew)
        await here.typing_status.typing("alice", crew, True)
        await eventually(lambda: bob.typing() == [("alice", True)])
        await here.typing_status.typing("alice", crew, False)
        await eventually(lambda: bob.typing() == [("alice", True), ("alice", False)])
        assert tablet.typing() == []


async def test_typing_ends_by_itself_on_every_node(settings: Settings) -> None:
    async with open_presence_nodes(settings, typing_s=0.1) as (here, there):
        crew = await here.group("alice", "bob", "carol")
        bob, carol = await here.watcher("bob", crew), await there.watcher("carol", crew)
        await here.typing_status.typing("alice", crew, True)
        for screen in (bob, carol):
            wanted = [("alice", True), ("alice", False)]
            await eventually(lambda screen=screen, wanted=wanted: screen.typing() == wanted)  # type: ignore[misc]
        assert len(here.typing_status) == 0


async def test_typing_ends_by_itself_where_the_typists_node_is_gone(settings: Settings) -> None:
    async with open_presence_nodes(settings, typing_s=0.1) as (here, there):
        crew = await here.group("alice", "bob", "carol")
        bob = await there.watcher("bob", crew)
        await here.typing_status.typing("alice", crew, True)
        await eventually(lambda: bob.typing() == [("alice", True)])
        here.typing_status.close()  # it says nothing more
        await eventually(lambda: bob.typing() == [("alice", True), ("alice", False)])


async def test_typing_on_another_node_goes_on_for_as_long_as_it_is_renewed(settings: Settings) -> None:
    async with open_presence_nodes(settings, typing_s=0.1) as (here, there):
        crew = await here.group("alice", "bob")
        bob = await there.watcher("bob", crew)
        signal = Signal((crew,), Typing(crew, "alice", True))
        began_s = time.monotonic()
        while time.monotonic() - began_s < 0.5 + TYPING_AGAIN_S:
            here.core.bus.publish("n2", signal)
            await asyncio.sleep(0.5)
        assert bob.typing() and ("alice", False) not in bob.typing()


async def test_that_somebody_types_is_not_told_after_the_end_of_it(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        crew = await node.group("alice", "bob")
        bob = await node.watcher("bob", crew)
        node.typing_status.heard(Typing(crew, "alice", True))
        node.typing_status.heard(Typing(crew, "alice", False))
        await node.typing_status.push_heard([crew], Typing(crew, "alice", False))
        await node.typing_status.push_heard(
            [crew], Typing(crew, "alice", True)
        )  # overtaken while its member list was read
        assert bob.typing() == [("alice", False)]


async def test_a_typist_who_left_the_conversation_does_not_type_for_ever(settings: Settings) -> None:
    async with open_presence_node(settings, typing_s=0.1) as node:
        crew = await node.group("bob", "alice")
        bob = await node.watcher("bob", crew)
        await node.typing_status.typing("alice", crew, True)
        await node.core.directory.remove("alice", crew, "alice")
        await eventually(lambda: bob.typing() == [("alice", True), ("alice", False)])


async def test_typing_on_is_told_once_in_two_seconds(settings: Settings) -> None:
    clock = AheadClock()
    async with open_presence_node(settings, clock=clock) as node:
        crew = await node.group("alice", "bob")
        bob = await node.watcher("bob", crew)
        for _ in range(5):
            await node.typing_status.typing("alice", crew, True)
        assert bob.typing() == [("alice", True)]
        clock.ahead_s += TYPING_AGAIN_S
        await node.typing_status.typing("alice", crew, True)
        assert bob.typing() == [("alice", True), ("alice", True)]


async def test_typing_again_after_stopping_is_told_at_once(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        crew = await node.group("alice", "bob")
        bob = await node.watcher("bob", crew)
        for is_typing in (True, False, True):
            await node.typing_status.typing("alice", crew, is_typing)
        assert [is_typing for _, is_typing in bob.typing()] == [True, False, True]


async def test_renewal_puts_the_end_off(settings: Settings) -> None:
    """Each renewal is told again after two seconds, without an end between."""
    clock = AheadClock()
    async with open_presence_node(settings, clock=clock, typing_s=2.0) as node:  # a busy machine renews in less
        crew = await node.group("alice", "bob")
        bob = await node.watcher("bob", crew)
        for number in range(1, 13):
            await node.typing_status.typing("alice", crew, True)
            clock.ahead_s += TYPING_AGAIN_S
            reached = clock.monotonic_s() + 0.2
            await eventually(lambda reached=reached: clock.monotonic_s() >= reached)  # type: ignore[misc]
            assert bob.typing() == [("alice", True)] * number
        await eventually(lambda: bob.typing()[-1] == ("alice", False))


async def test_stopping_when_nobody_typed_is_told_to_nobody(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        crew = await node.group("alice", "bob")
        bob = await node.watcher("bob", crew)
        await node.typing_status.typing("alice", crew, False)
        assert bob.typing() == []


async def test_a_stranger_does_not_type(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        crew = await node.group("alice", "bob")
        bob = await node.watcher("bob", crew)
        for conversation_id in (crew, "c-that-does-not-exist"):
            with pytest.raises(NotFound):
                await node.typing_status.typing("mallory", conversation_id, True)
        assert bob.typing() == []
        assert len(node.typing_status) == 0


async def test_who_was_removed_does_not_see_typing_from_another_node(settings: Settings) -> None:
    async with open_presence_nodes(settings) as (here, there):
        crew = await here.group("alice", "bob", "carol")
        bob, carol = await there.watcher("bob", crew), await there.watcher("carol", crew)
        await here.core.directory.remove("alice", crew, "bob")
        await here.typing_status.typing("alice", crew, True)
        await eventually(lambda: carol.typing() == [("alice", True)])
        assert bob.typing() == []
