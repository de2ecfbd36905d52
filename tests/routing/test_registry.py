"""The registry: which connections are live where, and which nodes there are, also when somebody dies or forgets."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.messaging.faulty_stores import (
    After,
    Device,
    Fault,
    FaultyNode,
    Gate,
    answer_lost,
    down,
    request_lost,
)
from tests.support.messaging.two_nodes import connect, disconnect, listening, pass_time, telling, unheard
from tests.support.waiting import eventually
from tidings.bounds import DEVICES_REMEMBERED_MAX, LEASE_S, NODE_LEASE_S, NODE_RENEW_S
from tidings.errors import Close, StoreError, Unavailable
from tidings.routing import registry
from tidings.stores.keyspace.call import plain
from tidings_proof.world.valkey import ValkeyProcess


async def leases(node: FaultyNode, user_id: str) -> list[str]:
    return [lease.decode() for lease in await node.command("ZRANGE", node.core.keys.ws(user_id), 0, -1)]


async def session(node: FaultyNode, user_id: str, device: str) -> str:
    held = await node.command("HGET", node.core.keys.session(user_id), device)
    return held.decode().partition(" ")[0] if held is not None else ""


async def settled(node: FaultyNode) -> None:
    await eventually(lambda: not node.core.registry._tasks and node.core.bus._flushing is None)


# --- nodes ----------------------------------------------------------------------------------------


async def test_nodes_know_each_other_until_one_says_nothing_for_the_time_of_its_lease(
    a: FaultyNode, b: FaultyNode, two: None
) -> None:
    assert a.core.registry.others == {"b"} and b.core.registry.others == {"a"}
    pass_time(a, NODE_LEASE_S + 0.1)
    await a.core.registry.renew_node()
    assert not a.core.registry.has_others and a.core.registry.lease_time_ms() == 0


async def test_a_newcomer_is_known_before_it_takes_its_first_socket(
    a: FaultyNode, b: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "JOIN_WAIT_S", 3_600.0)  # a answers at once, so b does not wait until its own time
    async with telling(a), listening(b):
        assert not a.core.registry.has_others
        await b.core.registry.join()
        assert a.core.registry.others == {"b"} and a.core.registry.lease_time_ms() > 0


@pytest.mark.parametrize("is_subscribed", [False, True])
async def test_a_newcomer_waits_longer_for_a_node_that_does_not_hear(
    a: FaultyNode, b: FaultyNode, monkeypatch: pytest.MonkeyPatch, is_subscribed: bool
) -> None:
    monkeypatch.setattr(registry, "JOIN_WAIT_S", 0)
    monkeypatch.setattr(registry, "NODE_RENEW_S", 0.2)
    await a.core.registry.renew_node()  # alive, and deaf
    if is_subscribed:  # half-open: the keyspace counts it among those who listen
        await a.core.bus.open(lambda item, node_id: None, lambda: None)
    began_s = b.clock.monotonic_s()
    async with listening(b):
        await b.core.registry.join()
    assert b.clock.monotonic_s() - began_s >= 0.2
    await a.core.bus.close()


async def test_a_second_node_of_the_same_name_is_refused_and_a_restarted_one_is_not(
    a: FaultyNode, b: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "NODE_RENEW_S", 0.05)
    b.core.registry._node_id = b.core.bus._node_id = "a"
    await a.core.registry.renew_node()  # alive, and killed: nobody listens
    await b.core.registry.join()
    async with telling(a):
        renewing = asyncio.create_task(_renew_often(a))
        await b.core.bus.open(lambda item, node_id: None, lambda: None)
        with pytest.raises(Unavailable, match="another node runs as 'a'"):
            await b.core.registry.join()
        renewing.cancel()
        await b.core.bus.close()


async def _renew_often(node: FaultyNode) -> None:
    while True:
        await asyncio.sleep(0.01)
        await node.core.registry.renew_node()


@pytest.mark.parametrize("ahead_ms", [3_600_000, -3_600_000])
async def test_nodes_whose_clocks_are_an_hour_apart_know_each_other_and_their_leases(
    a: FaultyNode, b: FaultyNode, ahead_ms: int
) -> None:
    b.clock.ahead_ms = ahead_ms
    async with telling(a, b):
        assert a.core.registry.others == {"b"} and b.core.registry.others == {"a"}
        await connect(a, "alice")
        await connect(b, "bob")
        assert await a.core.registry.nodes_of(["bob"]) == {"b": {"bob"}}
        assert await b.core.registry.nodes_of(["alice"]) == {"a": {"alice"}}
        assert [await node.core.takeover.finish_dead() for node in (a, b)] == [0, 0]
        assert not await a.core.registry.renew_node() and not await b.core.registry.renew_node()


async def test_a_clock_that_is_set_meanwhile_ends_no_lease(a: FaultyNode, b: FaultyNode, two: None) -> None:
    await connect(b, "bob")
    b.clock.ahead_ms -= 86_400_000
    assert not await b.core.registry.renew_node()
    await b.core.registry.renew(lambda user_id: None)
    assert await a.core.registry.nodes_of(["bob"]) == {"b": {"bob"}}
    await a.core.registry.renew_node()
    assert a.core.registry.others == {"b"}


async def test_a_node_that_joins_right_after_a_flush_finds_the_others_by_their_subscriptions(
    a: FaultyNode, b: FaultyNode, valkey: ValkeyProcess
) -> None:
    async with telling(a), listening(b):
        valkey.command("FLUSHALL")  # the list of nodes is gone until a renews its lease
        await b.core.registry.join()
        assert b.core.registry.others == {"a"} and a.core.registry.others == {"b"}
        assert b.core.registry.lease_time_ms() > 0, "so its sends are published"


async def test_the_word_of_a_newcomer_is_not_undone_by_a_list_that_is_older(a: FaultyNode, b: FaultyNode) -> None:
    async with telling(a), listening(b):
        late = After()
        a.keyspace.fail("ZRANGE", late)
        renewal = asyncio.create_task(a.core.registry.renew_node())
        await late.reached.wait()  # the list was read without b in it
        await b.core.registry.join()
        late.opened.set()
        await renewal
        assert a.core.registry.others == {"b"}
        await a.command("ZREM", a.core.keys.nodes, "b")
        a.clock.elapsed_s += 2 * NODE_RENEW_S
        await a.core.registry.renew_node()
        assert not a.core.registry.has_others


async def test_a_node_whose_own_lease_was_gone_learns_of_it(a: FaultyNode) -> None:
    assert await a.core.registry.renew_node(), "the first time"
    assert not await a.core.registry.renew_node()
    await a.command("ZREM", a.core.keys.nodes, "a")  # buried by another
    assert await a.core.registry.renew_node()
    await a.command("ZADD", a.core.keys.nodes, "2e12", "a")  # or lost, and listed again by somebody who knew of it
    assert await a.core.registry.renew_node()
    pass_time(a, NODE_LEASE_S + 0.1)  # or listed, but run out
    assert await a.core.registry.renew_node()


async def test_who_left_while_a_node_was_stopped_is_not_put_back_on_the_list(a: FaultyNode, b: FaultyNode) -> None:
    async with telling(a, b):
        assert a.core.registry.others == {"b"}
        await b.core.registry.leave()
        pass_time(a, NODE_LEASE_S + 0.1)  # it was stopped for longer than its lease
        assert await a.core.registry.renew_node()
        assert not a.core.registry.has_others
        assert await a.command("ZSCORE", a.core.keys.nodes, "b") is None


async def test_a_renewal_without_an_answer_is_not_taken_for_a_lost_lease(a: FaultyNode) -> None:
    await a.core.registry.renew_node()
    for lost in (answer_lost, request_lost):
        pass_time(a, 0.01)
        a.keyspace.fail("ZADD", lost)
        with pytest.raises(StoreError):
            await a.core.registry.renew_node()
        assert not await a.core.registry.renew_node()


async def test_who_leaves_is_gone_at_once_with_all_its_connections(a: FaultyNode, b: FaultyNode, two: None) -> None:
    bob = await connect(b, "bob")
    gate = Gate()
    b.keyspace.fail("ZREM", gate)
    disconnect(b, bob)
    await gate.reached.wait()
    leaving = asyncio.create_task(b.core.registry.leave())
    await asyncio.wait([leaving], timeout=0.1)
    assert not leaving.done(), "bob's word comes first"
    gate.opened.set()
    await leaving
    await a.core.registry.renew_node()
    assert not a.core.registry.has_others and await leases(a, "bob") == []


# --- connections ----------------------------------------------------------------------------------


async def test_a_user_is_online_on_every_node_with_a_live_lease(a: FaultyNode, b: FaultyNode, two: None) -> None:
    phone, laptop = await connect(a, "bob", "phone"), await connect(b, "bob", "laptop")
    assert await a.core.registry.nodes_of(["bob", "carol"]) == {"b": {"bob"}}
    assert await b.core.registry.nodes_of(["bob", "carol"]) == {"a": {"bob"}}
    assert await a.core.registry.is_online(["bob", "carol"]) == {"bob": True, "carol": False}
    disconnect(a, phone)
    disconnect(b, laptop)
    await settled(a)
    await settled(b)
    assert await a.core.registry.is_online(["bob"]) == {"bob": False}


async def test_each_connection_removes_only_itself(a: FaultyNode, b: FaultyNode) -> None:
    first, second = await connect(a, "bob", "1"), await connect(a, "bob", "2")
    await connect(b, "bob", "3")
    disconnect(a, first)
    await settled(a)
    assert await leases(a, "bob") == ["a:2", "b:3"]
    disconnect(a, first)
    disconnect(a, second)
    await settled(a)
    assert await leases(a, "bob") == ["b:3"]


async def test_the_leases_of_a_dead_node_run_out_and_are_swept_by_the_next_who_comes(
    a: FaultyNode, b: FaultyNode, two: None
) -> None:
    await connect(b, "bob", "old")
    assert await a.core.registry.nodes_of(["bob"]) == {"b": {"bob"}}
    pass_time(a, LEASE_S + 0.1)
    assert await a.core.registry.nodes_of(["bob"]) == {}
    assert await a.core.registry.is_online(["bob"]) == {"bob": False}
    await connect(a, "bob", "new")
    assert await leases(a, "bob") == ["a:new"]


async def test_a_renewed_lease_lives_on_and_is_no_loss(a: FaultyNode, b: FaultyNode, two: None) -> None:
    lost: list[str] = []
    await connect(b, "bob")
    for _ in range(4):
        for node in (a, b):
            pass_time(node, LEASE_S / 2)
        await b.core.registry.renew(lost.append)
    assert lost == [] and await a.core.registry.nodes_of(["bob"]) == {"b": {"bob"}}
    ttl_s = await b.command("TTL", b.core.keys.ws("bob"))
    assert ttl_s > 86_400, "a lease that a dead node leaves behind says when the user was last seen"


@pytest.mark.parametrize("device", [None, "phone"])
async def test_reads_beside_a_claim_share_its_round_trip_and_see_the_lease(a: FaultyNode, device: str | None) -> None:
    key, runs = a.core.keys.ws("bob"), len(a.keyspace.runs)
    beside = plain(key, b"ZRANGE", key, 0, -1), plain(key, b"ZCARD", key)
    assert await a.core.registry.claim(Device("bob", "c1", device), beside) == [[b"a:c1"], 1]
    assert len(a.keyspace.runs) == runs + 1


async def test_a_renewal_sets_the_expiry_of_a_lease_once_a_day(a: FaultyNode) -> None:
    key, lost = a.core.keys.ws("bob"), list[str]()
    await connect(a, "bob")
    await a.command("EXPIRE", key, 100)
    await a.core.registry.renew(lost.append)
    assert await a.command("TTL", key) <= 100
    pass_time(a, 86_401)
    await a.core.registry.renew(lost.append)
    assert await a.command("TTL", key) > 86_400
    await a.command("EXPIRE", key, 100)
    await a.core.registry.renew(lost.append)
    assert await a.command("TTL", key) <= 100


async def test_a_renewal_after_everything_was_forgotten_announces_again_and_counts_as_lost(
    a: FaultyNode, valkey: ValkeyProcess
) -> None:
    lost: list[str] = []
    await connect(a, "bob", device="phone")
    await connect(a, "carol")
    valkey.command("FLUSHALL")
    await a.core.registry.renew(lost.append)
    assert sorted(lost) == ["bob", "carol"]
    assert await leases(a, "bob") == ["a:bob-a"] and await session(a, "bob", "phone") == "a:bob-a"
    await a.core.registry.renew(lost.append)
    assert len(lost) == 2


@pytest.mark.parametrize(("command", "fault"), [("EXPIRE", answer_lost), ("HGET", down)])
async def test_a_lease_that_was_gone_counts_as_lost_also_when_its_renewal_failed_half_way(
    a: FaultyNode, command: str, fault: Fault
) -> None:
    lost: list[str] = []
    await connect(a, "bob")
    await a.command("DEL", a.core.keys.ws("bob"))
    a.keyspace.fail(command, fault)
    with pytest.raises(StoreError):
        await a.core.registry.renew(lost.append)
    assert lost == [] and await leases(a, "bob")  # it is there again, and nobody has heard that it was not
    await a.core.registry.renew(lost.append)
    await a.core.registry.renew(lost.append)
    assert lost == ["bob"]


async def test_leases_that_ran_out_before_they_were_renewed_count_as_lost_though_they_are_listed(a: FaultyNode) -> None:
    lost: list[str] = []
    await connect(a, "bob")
    a.clock.elapsed_s += LEASE_S + 1
    await a.core.registry.renew(lost.append)
    assert lost == ["bob"]
    a.keyspace.fail("ZADD", down)
    a.clock.elapsed_s += LEASE_S - 1
    with pytest.raises(Exception, match="down"):
        await a.core.registry.renew(lost.append)
    a.clock.elapsed_s += 2
    await a.core.registry.renew(lost.append)
    assert lost == ["bob", "bob"]


async def test_who_leaves_with_work_undone_leaves_it_to_another(a: FaultyNode, b: FaultyNode, two: None) -> None:
    await b.command("SADD", b.core.keys.open("b"), "a-conversation")
    await b.command("DEL", b.core.keys.nodes)  # also where the list of nodes was lost just before
    await b.core.registry.leave()
    await a.core.registry.renew_node()
    assert not await a.core.registry.renew_node() and not a.core.registry.has_others
    assert await a.core.takeover.finish_dead() == 1
    assert await a.command("EXISTS", a.core.keys.open("b")) == 0
    assert [name.decode() for name in await a.command("ZRANGE", a.core.keys.nodes, 0, -1)] == ["a"]


async def test_a_node_that_died_while_the_clock_was_ahead_is_found_in_the_time_of_a_lease(
    a: FaultyNode, b: FaultyNode, two: None
) -> None:
    await b.command("SADD", b.core.keys.open("b"), "a-conversation")
    await b.command("ZINCRBY", b.core.keys.nodes, 300_000, "b")  # the keyspace's clock was five minutes ahead
    assert await a.core.takeover.finish_dead() == 0  # it may still live
    pass_time(a, NODE_LEASE_S + 0.1)
    assert await a.core.takeover.finish_dead() == 1


async def test_a_node_that_died_is_not_forgotten_with_the_list_of_nodes(
    a: FaultyNode, b: FaultyNode, two: None
) -> None:
    await b.command("SADD", b.core.keys.open("b"), "a-conversation")
    await a.command("DEL", a.core.keys.nodes)
    await a.core.registry.renew_node()
    assert await a.core.takeover.finish_dead() == 0  # it may still live: it has the time of a lease to say so
    pass_time(a, NODE_LEASE_S + 0.1)
    assert await a.core.takeover.finish_dead() == 1
    assert [name.decode() for name in await a.command("ZRANGE", a.core.keys.nodes, 0, -1)] == ["a"]


async def test_a_connection_that_goes_during_a_renewal_leaves_no_lease(a: FaultyNode) -> None:
    devices = [await connect(a, f"user{n}") for n in range(501)]  # two round trips
    gate = Gate()
    a.keyspace.fail("ZADD", gate)
    renewal = asyncio.create_task(a.core.registry.renew(lambda user_id: None))
    await gate.reached.wait()
    disconnect(a, devices[-1])
    await settled(a)
    gate.opened.set()
    await renewal
    assert await leases(a, "user500") == []


# --- devices --------------------------------------------------------------------------------------


async def test_a_device_that_connects_elsewhere_is_replaced_here(a: FaultyNode, b: FaultyNode, two: None) -> None:
    first = await connect(a, "bob", "1", device="phone")
    other = await connect(a, "bob", "2", device="laptop")
    await connect(b, "bob", "3", device="phone")
    await eventually(lambda: first.closed == [Close.REPLACED])
    await settled(b)
    assert other.closed == [] and await leases(a, "bob") == ["a:2", "b:3"]
    disconnect(a, first)  # its own last word comes late
    await settled(a)
    assert await session(a, "bob", "phone") == "b:3" and await leases(a, "bob") == ["a:2", "b:3"]


async def test_of_a_device_that_connects_twice_at_once_one_stays(a: FaultyNode, b: FaultyNode, two: None) -> None:
    for n in range(20):
        first, second = Device("bob", f"{n}a", "phone"), Device("bob", f"{n}b", "phone")
        a.core.hub.attach(first)
        b.core.hub.attach(second)
        await asyncio.gather(a.core.registry.claim(first), b.core.registry.claim(second))
        both = (first, second)
        await eventually(lambda both=both: len(both[0].closed + both[1].closed) == 1)  # type: ignore[misc]
        stays = f"a:{n}a" if second.closed else f"b:{n}b"
        assert await session(a, "bob", "phone") == stays
        disconnect(a, first)
        disconnect(b, second)
        await settled(a)
        await settled(b)


async def test_a_replaced_connection_that_was_not_told_goes_with_its_next_renewal(
    a: FaultyNode, b: FaultyNode, two: None
) -> None:
    lost: list[str] = []
    first = await connect(a, "bob", "1", device="phone")
    b.keyspace.fail("SPUBLISH", unheard)
    pass_time(b, 1.1)
    await connect(b, "bob", "2", device="phone")
    await settled(b)
    assert first.closed == []
    await a.core.registry.renew(lost.append)
    assert first.closed == [Close.REPLACED] and await session(a, "bob", "phone") == "b:2"


async def test_made_up_device_names_do_not_fill_the_keyspace(a: FaultyNode) -> None:
    for n in range(2 * DEVICES_REMEMBERED_MAX):
        pass_time(a, 0.01)
        await a.core.registry.claim(Device("bob", f"c{n}", f"made-up-{n}"))
    assert await a.command("HLEN", a.core.keys.session("bob")) <= DEVICES_REMEMBERED_MAX + 1
    assert await session(a, "bob", f"made-up-{2 * DEVICES_REMEMBERED_MAX - 1}") != "", "the latest is remembered"


async def test_a_connection_that_cannot_be_announced_is_refused(a: FaultyNode) -> None:
    a.keyspace.fail("ZADD", down)
    with pytest.raises(Exception, match="down"):
        await connect(a, "bob")


async def test_a_lease_that_cannot_be_taken_down_runs_out(a: FaultyNode) -> None:
    bob = await connect(a, "bob")
    a.keyspace.fail("ZREM", down)
    disconnect(a, bob)
    await settled(a)
    assert await leases(a, "bob") == ["a:bob-a"]
    pass_time(a, LEASE_S + 0.1)
    assert await a.core.registry.is_online(["bob"]) == {"bob": False}


async def test_a_session_that_fell_back_does_not_end_the_connection_that_came_later(
    a: FaultyNode, b: FaultyNode, two: None
) -> None:
    """A failover may lose the word of a reconnect: then the older connection, which is gone, is noted again."""
    first = await connect(a, "bob", "1", device="phone")
    noted = await a.command("HGET", a.core.keys.session("bob"), "phone")
    disconnect(a, first)
    await settled(a)
    b.clock.ahead_ms -= 900  # clocks of two machines are never the same
    second = await connect(b, "bob", "2", device="phone")
    await a.command("HSET", a.core.keys.session("bob"), "phone", noted.decode())
    await a.command("DEL", a.core.keys.ws("bob"))
    await b.core.registry.renew(lambda user_id: None)
    assert second.closed == [] and await session(b, "bob", "phone") == "b:2"
