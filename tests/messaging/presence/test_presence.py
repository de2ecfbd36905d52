"""Who is online: told to those who watch a shared conversation, and nothing of a short absence."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.clocks import AheadClock
from tests.support.messaging.presence_nodes import Screen, open_presence_node, open_presence_nodes
from tests.support.waiting import eventually
from tidings.bounds import LEASE_S, PRESENCE_BURST_MAX, PRESENCE_MEMBERS_MAX
from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.errors import NotFound, TooLarge
from tidings.pushes import Presence
from tidings_proof.world.valkey import ValkeyProcess

AWAY_S = 2.0  # a busy machine reconnects in less


# --- who begins to watch --------------------------------------------------------------------------


async def test_whoever_begins_to_watch_is_shown_how_the_others_stand(settings: Settings) -> None:
    async with open_presence_nodes(settings, away_s=AWAY_S) as (here, there):
        crew, pair = await here.group("alice", "bob", "carol", "dan"), await here.group("alice", "bob")
        await there.connect("bob")
        start_ms = there.core.registry.now_ms()
        there.disconnect(await there.connect("carol"))
        alice = await here.connect("alice")

        def shown() -> list[Presence]:
            return [event for event in alice.events if isinstance(event, Presence)]

        async def watch() -> dict[str, Presence]:
            alice.events.clear()
            await here.live_status.watch(alice, [crew, pair])
            await eventually(lambda: len({one.user_id for one in shown()}) == 3)  # a push may be on its way
            told = Counter(one.user_id for one in shown())
            assert told["bob"] == told["dan"] == 1  # each person once, though two conversations are shared with bob
            return {presence.user_id: presence for presence in shown()}  # that carol goes is told to watchers, too

        assert (await watch())["bob"] == Presence("bob", True, None)
        while (await watch())["carol"].online:
            pass  # until she was away for long enough to be gone
        in_the_end = await watch()
        assert in_the_end["dan"] == Presence("dan", False, None)
        last_seen = in_the_end["carol"].last_seen
        assert last_seen is not None and start_ms <= last_seen <= here.core.clock.now_ms()


async def test_the_members_of_a_big_conversation_are_not_listed(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        others = [f"user-{number}" for number in range(PRESENCE_MEMBERS_MAX)]
        big, small = await node.group("alice", *others), await node.group("alice", *others[:-1])
        alice = await node.connect("alice")
        await node.live_status.watch(alice, [big])
        assert alice.events == []
        await node.live_status.watch(alice, [small])
        assert len(alice.presence()) == PRESENCE_MEMBERS_MAX - 1


# --- coming and going -----------------------------------------------------------------------------


async def test_coming_and_going_is_told_once_to_each_watcher_on_every_node(settings: Settings) -> None:
    async with open_presence_nodes(settings, away_s=AWAY_S) as (here, there):
        crew, pair = await here.group("alice", "bob", "carol"), await here.group("alice", "bob")
        near, far = await here.watcher("bob", crew, pair), await there.watcher("bob", crew, pair)
        idle = await there.connect("carol")
        alice = await here.connect("alice")
        for screen in (near, far):
            wanted = [Presence("alice", True, None)]
            await eventually(lambda screen=screen, wanted=wanted: screen.of("alice") == wanted)  # type: ignore[misc]
        start_ms = here.core.registry.now_ms()
        here.disconnect(alice)
        for screen in (near, far):
            await eventually(lambda screen=screen: len(screen.of("alice")) == 2)  # type: ignore[misc]
            gone = screen.of("alice")[-1]
            assert not gone.online and gone.last_seen is not None
            assert start_ms <= gone.last_seen <= here.core.registry.now_ms()
        assert idle.events == []


async def test_a_return_to_the_same_node_is_no_change(settings: Settings) -> None:
    async with open_presence_node(settings, away_s=AWAY_S) as node:
        pair = await node.group("alice", "bob")
        bob = await node.watcher("bob", pair)
        alice = await node.connect("alice")
        await eventually(lambda: bob.presence() == [("alice", True)])
        for _ in range(3):
            node.disconnect(alice)
            alice = await node.connect("alice")
        node.disconnect(alice)
        await eventually(lambda: len(bob.presence()) > 1)
        assert bob.presence() == [("alice", True), ("alice", False)]


async def test_a_return_on_another_node_is_no_change(settings: Settings) -> None:
    async with open_presence_nodes(settings, away_s=AWAY_S) as (here, there):
        pair = await here.group("alice", "bob")
        near, far = await here.watcher("bob", pair), await there.watcher("bob", pair)
        at, other = here, there
        alice = await at.connect("alice")
        for screen in (near, far):
            await eventually(lambda screen=screen: screen.presence() == [("alice", True)])  # type: ignore[misc]
        for _ in range(4):
            at.disconnect(alice)
            at, other = other, at
            alice = await at.connect("alice")
        at.disconnect(alice)
        for screen in (near, far):
            await eventually(lambda screen=screen: len(screen.presence()) > 1)  # type: ignore[misc]
            assert screen.presence() == [("alice", True), ("alice", False)]


async def test_a_return_on_another_node_is_no_change_to_watchers_of_a_big_conversation(settings: Settings) -> None:
    """What they were told may not be remembered, so the returning node itself must keep silent."""
    async with open_presence_nodes(settings, away_s=AWAY_S) as (here, there):
        big = await here.group("alice", "bob", *(f"user-{number}" for number in range(PRESENCE_MEMBERS_MAX)))
        bob = await here.watcher("bob", big)
        alice = await here.connect("alice")
        await eventually(lambda: bob.presence() == [("alice", True)])
        await here.presences.compare()
        here.disconnect(alice)
        alice = await there.connect("alice")
        started_s = there.core.clock.monotonic_s()
        await eventually(lambda: there.core.clock.monotonic_s() > started_s + 2 * AWAY_S)
        there.disconnect(alice)
        await eventually(lambda: len(bob.presence()) > 1)
        assert bob.presence() == [("alice", True), ("alice", False)]


async def test_while_one_device_stays_the_user_is_online(settings: Settings) -> None:
    async with open_presence_nodes(settings, away_s=AWAY_S) as (here, there):
        pair = await here.group("alice", "bob")
        bob = await here.watcher("bob", pair)
        phone = await here.connect("alice", "phone")
        await eventually(lambda: bob.presence() == [("alice", True)])
        laptop = await there.connect("alice", "laptop")
        here.disconnect(phone)
        started_s = here.core.clock.monotonic_s()
        await eventually(lambda: here.core.clock.monotonic_s() > started_s + 2 * AWAY_S)
        assert bob.presence() == [("alice", True)]
        there.disconnect(laptop)
        await eventually(lambda: bob.presence() == [("alice", True), ("alice", False)])


async def test_two_devices_that_come_at_the_same_moment_do_not_hide_each_other(settings: Settings) -> None:
    async with open_presence_nodes(settings) as (here, there):
        pair = await here.group("alice", "bob")
        bob = await here.watcher("bob", pair)
        screens = [(node, Screen("alice")) for node in (here, there)]
        for node, screen in screens:
            assert node.core.hub.attach(screen)
            await node.core.registry.claim(screen)
            await node.core.unread.totals("alice")
        for node, screen in screens:
            node.live_status.came(screen)
        await eventually(lambda: ("alice", True) in bob.presence())


async def test_nobody_is_told_of_a_stranger_or_of_who_has_left(settings: Settings) -> None:
    async with open_presence_nodes(settings) as (here, there):
        crew, pair = await here.group("carol", "bob", "alice"), await here.group("bob", "alice")
        await here.core.directory.remove("carol", crew, "alice")
        bob, carol = await there.watcher("bob", crew, pair), await there.watcher("carol", crew)
        await here.connect("mallory")
        await here.connect("alice")
        await eventually(lambda: bob.of("alice") == [Presence("alice", True, None)])
        # An index that still lists the conversation she left makes no difference.
        await there.presences.push([crew], Presence("alice", False, None))
        assert bob.of("alice") == [Presence("alice", True, None)]
        assert carol.of("alice") == []


async def test_what_watchers_were_told_is_compared_with_the_leases(settings: Settings, valkey: ValkeyProcess) -> None:
    async with open_presence_nodes(settings, renew_s=0.05) as (here, there):
        pair = await here.group("alice", "bob")
        await here.connect("alice")
        bob = await there.watcher("bob", pair)
        await eventually(lambda: valkey.command("DEL", here.core.keys.ws("alice")) == b":1\r\n")  # a node that died
        await eventually(lambda: bob.presence() == [("alice", False)])
        there.is_deaf = True  # and a publish that was lost
        await here.connect("alice")
        await eventually(lambda: bob.presence() == [("alice", False), ("alice", True)])


async def test_watchers_of_a_big_conversation_are_told_of_who_went_with_their_node(settings: Settings) -> None:
    clock = AheadClock()
    async with open_presence_node(settings) as dead, open_presence_node(settings, "n2", clock=clock) as node:
        for one in (dead, node):
            await one.core.registry.renew_node()
        big = await node.group("alice", "bob", *(f"user-{number}" for number in range(PRESENCE_MEMBERS_MAX)))
        bob = await node.watcher("bob", big)
        await dead.connect("alice")
        await eventually(lambda: bob.presence() == [("alice", True)])
        await node.presences.compare()
        clock.ahead_s += LEASE_S + 1  # and no renewal came
        await node.presences.compare()
        assert bob.presence() == [("alice", True), ("alice", False)]


async def test_who_comes_is_told_however_long_the_sign_in_took(settings: Settings) -> None:
    clock = AheadClock()
    async with open_presence_node(settings, clock=clock, away_s=AWAY_S, renew_s=3600) as node:  # nobody compares
        bob = await node.watcher("bob", await node.group("alice", "bob"))
        alice = Screen("alice")
        assert node.core.hub.attach(alice)
        await node.core.registry.claim(alice)
        await node.core.unread.totals("alice")
        clock.ahead_s += AWAY_S + 1  # its lease is old by now, and is no sign of another connection
        node.live_status.came(alice)
        await eventually(lambda: bob.presence() == [("alice", True)])


async def test_what_earlier_watchers_were_told_does_not_hide_a_change_from_later_ones(settings: Settings) -> None:
    async with open_presence_node(settings, away_s=0.01) as node:
        pair = await node.group("alice", "carol")
        big = await node.group("alice", "bob", *(f"user-{number}" for number in range(PRESENCE_MEMBERS_MAX)))
        alice, carol = await node.connect("alice"), await node.watcher("carol", pair)
        node.disconnect(carol)
        node.disconnect(alice)  # nobody watches, so nobody is told
        left_ms = Clock().now_ms()
        await eventually(lambda: len(node.tasks) == 1 and Clock().now_ms() > left_ms + 100)
        await node.presences.compare()
        bob = await node.watcher("bob", big)
        await node.connect("alice")
        await eventually(lambda: bob.of("alice") == [Presence("alice", True, None)])


async def test_who_begins_to_watch_corrects_what_the_others_were_told(settings: Settings) -> None:
    async with open_presence_nodes(settings) as (here, there):
        pair, crew = await here.group("alice", "bob"), await here.group("alice", "carol")
        bob = await there.connect("bob")
        await there.live_status.watch(bob, [pair])
        assert bob.presence() == [("alice", False)]
        there.is_deaf = True
        await here.connect("alice")
        carol = await there.connect("carol")
        await there.live_status.watch(carol, [crew])
        assert carol.presence() == [("alice", True)]
        assert bob.presence() == [("alice", False), ("alice", True)]


async def test_a_crowd_that_comes_at_once_is_told_of(settings: Settings) -> None:
    async with open_presence_nodes(settings) as (here, there):
        names = [f"user-{number}" for number in range(49)]
        crew = await here.group("bob", *names)
        bob = await there.watcher("bob", crew)
        for name in names:
            await here.connect(name)
        await eventually(lambda: sorted(bob.presence()) == sorted((name, True) for name in names))


# --- asking ---------------------------------------------------------------------------------------


async def test_members_ask_for_presence_and_get_the_leases_of_the_moment(settings: Settings) -> None:
    async with open_presence_nodes(settings) as (here, there):
        crew = await here.group("alice", "bob", "carol")
        bob = await there.connect("bob")
        asked = await here.live_status.presence("alice", crew, ["carol", "bob", "carol"])
        assert asked == [Presence("carol", False, None), Presence("bob", True, None)]
        assert [one.user_id for one in await here.live_status.presence("bob", crew, [])] == ["alice", "carol"]
        there.disconnect(bob)
        while (now := (await here.live_status.presence("alice", crew, ["bob"]))[0]).online or now.last_seen is None:
            pass  # its lease goes with the next round trip, without the wait that a watcher is spared
        assert abs(now.last_seen - here.core.clock.now_ms()) < 60_000


async def test_presence_of_people_who_share_no_conversation_does_not_exist(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        crew = await node.group("alice", "bob")
        await node.connect("carol")
        for asker, conversation_id, who in (
            ("mallory", crew, ["bob"]),
            ("alice", crew, ["bob", "carol"]),
            ("alice", "c-that-does-not-exist", ["bob"]),
        ):
            with pytest.raises(NotFound):
                await node.live_status.presence(asker, conversation_id, who)


async def test_presence_of_too_many_people_at_once_is_refused(settings: Settings) -> None:
    async with open_presence_node(settings) as node:
        crew = await node.group("alice", *(f"user-{number}" for number in range(PRESENCE_BURST_MAX + 1)))
        with pytest.raises(TooLarge):
            await node.live_status.presence("alice", crew, [])


@pytest.mark.parametrize("device", [None, "phone"])
async def test_last_seen_is_written_before_the_node_ends(settings: Settings, device: str | None) -> None:
    async with open_presence_node(settings) as node:
        crew = await node.group("alice", "bob")
        screen = await node.connect("bob", device)
        start_ms = node.core.registry.now_ms()  # the clock of leases, not of this machine
        node.disconnect(screen)
    async with open_presence_node(settings, "n2") as node:
        (bob,) = await node.live_status.presence("alice", crew, ["bob"])
        assert not bob.online and bob.last_seen is not None and bob.last_seen >= start_ms


async def test_who_went_with_their_node_was_last_seen_when_their_lease_was_renewed(settings: Settings) -> None:
    clock = AheadClock()
    async with open_presence_node(settings) as dead, open_presence_node(settings, "n2", clock=clock) as node:
        crew = await node.group("alice", "bob")
        earliest_ms = dead.core.registry.now_ms()
        await dead.connect("bob")
        latest_ms = dead.core.registry.now_ms()
        clock.ahead_s += LEASE_S + 1  # and no renewal came
        (bob,) = await node.live_status.presence("alice", crew, ["bob"])
        assert not bob.online and bob.last_seen is not None and earliest_ms <= bob.last_seen <= latest_ms


async def test_a_later_goodbye_counts_more_than_what_a_dead_node_left(settings: Settings) -> None:
    clock = AheadClock()
    async with open_presence_node(settings) as dead, open_presence_node(settings, "n2", clock=clock) as node:
        crew = await node.group("alice", "bob")
        await dead.connect("bob")
        clock.ahead_s += LEASE_S / 2
        node.disconnect(await node.connect("bob"))
        await eventually(lambda: len(node.tasks) == 0)
        went_ms = clock.now_ms()
        clock.ahead_s += LEASE_S
        (bob,) = await node.live_status.presence("alice", crew, ["bob"])
        assert bob.last_seen is not None and abs(went_ms - bob.last_seen) < LEASE_S * 250
