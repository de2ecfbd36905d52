"""Who has which conversation on screen, here and on other nodes."""

from __future__ import annotations

import pytest

from tests.support.clocks import AheadClock
from tests.support.messaging.presence_nodes import Screen, open_presence_node, open_presence_nodes
from tidings.bounds import WATCH_S, WATCHED_MAX
from tidings.config.settings import Settings
from tidings.errors import NotFound, TooLarge
from tidings.pushes import Typing
from tidings_proof.world.valkey import ValkeyProcess


async def test_a_newer_watch_replaces_the_older(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        one, two = await node.group("alice", "bob"), await node.group("alice", "bob")
        screen = await node.connect("alice")
        await node.watchers.watch(screen, [one])
        await node.watchers.watch(screen, [two, two])
        assert list(node.watchers) == [two]
        await node.watchers.watch(screen, [])
        assert len(node.watchers) == 0


async def test_a_stranger_watches_nothing_and_what_was_watched_stays(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        theirs, mine = await node.group("alice", "bob"), await node.group("mallory")
        screen = await node.connect("mallory")
        await node.watchers.watch(screen, [mine])
        for foreign in (theirs, "c-that-does-not-exist"):
            with pytest.raises(NotFound):
                await node.watchers.watch(screen, [mine, foreign])
        assert list(node.watchers) == [mine]


async def test_more_than_a_screenful_is_refused(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        screen = await node.connect("alice")
        with pytest.raises(TooLarge):
            await node.watchers.watch(screen, [f"c-{number}" for number in range(WATCHED_MAX + 1)])


async def test_a_connection_that_went_meanwhile_is_not_kept(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        crew = await node.group("alice", "bob")
        screen = await node.connect("alice")
        node.disconnect(screen)
        assert await node.watchers.watch(screen, [crew]) == []
        assert len(node.watchers) == 0


async def test_a_connection_that_goes_watches_nothing(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        crew = await node.group("alice", "bob")
        first, second = await node.connect("alice"), await node.connect("alice")
        for screen in (first, second):
            await node.watchers.watch(screen, [crew])
        node.disconnect(first)
        assert crew in node.watchers
        node.disconnect(second)
        assert crew not in node.watchers


async def test_other_nodes_know_where_watchers_are_until_the_word_runs_out(
    settings: Settings, valkey: ValkeyProcess
) -> None:
    async with open_presence_nodes(settings) as (here, there):
        crew, other = await here.group("alice", "bob"), await here.group("alice", "bob")
        await there.watchers.watch(await there.connect("bob"), [crew])
        await there.watchers.announce([crew])
        assert await here.watchers.nodes_of([crew, other]) == {"n2": [crew]}
        assert await there.watchers.nodes_of([crew, other]) == {}  # it knows its own
        ttl_s = int(valkey.command("TTL", here.core.keys.watch(crew))[1:])
        assert 0 < ttl_s <= WATCH_S


async def test_a_node_that_stopped_watching_is_forgotten_by_itself(settings: Settings) -> None:
    clock = AheadClock()
    async with open_presence_node(settings, clock=clock) as here, open_presence_node(settings, "n2") as there:
        await here.core.registry.renew_node()
        crew = await here.group("alice", "bob")
        await there.watchers.watch(await there.connect("bob"), [crew])
        await there.watchers.announce([crew])
        assert await here.watchers.nodes_of([crew]) == {"n2": [crew]}
        clock.ahead_s = WATCH_S + 1
        assert await here.watchers.nodes_of([crew]) == {}


async def test_a_word_that_others_know_is_not_said_again_before_its_half(
    settings: Settings, valkey: ValkeyProcess
) -> None:
    clock = AheadClock()
    async with open_presence_node(settings, clock=clock) as node:
        crew = await node.group("alice", "bob")
        await node.watchers.watch(await node.connect("alice"), [crew])
        await node.watchers.announce([crew])
        key = node.core.keys.watch(crew)
        valkey.command("DEL", key)
        await node.watchers.announce([crew])
        assert valkey.command("EXISTS", key) == b":0\r\n"
        clock.ahead_s = WATCH_S * 0.6
        await node.watchers.announce([crew])
        assert valkey.command("EXISTS", key) == b":1\r\n"


async def test_a_renewal_says_it_again_to_a_keyspace_that_forgot(settings: Settings, valkey: ValkeyProcess) -> None:
    async with open_presence_nodes(settings) as (here, there):
        crew = await here.group("alice", "bob")
        await there.watchers.watch(await there.connect("bob"), [crew])
        await there.watchers.announce([crew])
        valkey.command("DEL", here.core.keys.watch(crew))
        assert await here.watchers.nodes_of([crew]) == {}
        await there.watchers.renew()
        assert await here.watchers.nodes_of([crew]) == {"n2": [crew]}


async def test_telling_reaches_members_who_watch_once_and_never_the_one_it_is_about(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        one, two = await node.group("alice", "bob", "carol"), await node.group("alice", "bob", "carol")
        bob, carol = await node.watcher("bob", one, two), await node.connect("carol")
        alice = await node.watcher("alice", one, two)
        event = Typing(one, "alice", True)
        await node.watchers.push(await node.watchers.member_lists([one, two]), event)
        assert bob.typing() == [("alice", True)]
        assert (alice.typing(), carol.typing()) == ([], [])


async def test_a_push_that_ends_a_connection_does_not_disturb_the_telling(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        crew = await node.group("alice", "bob")

        class Slow(Screen):
            def push(self, event: object) -> None:
                super().push(event)  # type: ignore[arg-type]
                node.disconnect(self)

        screens = [Slow("bob") for _ in range(3)]
        for screen in screens:
            assert node.core.hub.attach(screen)
            await node.watchers.watch(screen, [crew])
        await node.watchers.push(await node.watchers.member_lists([crew]), Typing(crew, "alice", True))
        assert [len(screen.events) for screen in screens] == [1, 1, 1]
        assert crew not in node.watchers


async def test_who_was_removed_on_another_node_hears_nothing_more(settings: Settings) -> None:
    async with open_presence_nodes(settings) as (here, there):
        crew = await here.group("alice", "bob", "carol")
        bob, carol = await there.watcher("bob", crew), await there.watcher("carol", crew)
        await here.core.directory.remove("alice", crew, "bob")
        await there.watchers.push(await there.watchers.member_lists([crew]), Typing(crew, "alice", True))
        assert (bob.typing(), carol.typing()) == ([], [("alice", True)])
