"""Heartbeat: a node keeps its leases whatever it has to do, and makes up for when it was deaf, stopped or alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, Gate, code_of, down, open_faulty
from tests.support.messaging.two_nodes import connect, pass_time, telling, unheard, write
from tests.support.waiting import eventually
from tidings.bounds import NODE_LEASE_S
from tidings.config.settings import Settings
from tidings.errors import Problem, StoreError
from tidings.messaging.deliver import route as deliver
from tidings.model import ContentPatch
from tidings.node import heartbeat
from tidings.routing.bus import Joined
from tidings.stores.keyspace.server import KeyspaceMistake
from tidings_proof.world.valkey import ValkeyProcess

SOON_S = 0.05


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is done every second or two is done at once."""
    monkeypatch.setattr(heartbeat, "NODE_RENEW_S", SOON_S)
    monkeypatch.setattr(heartbeat, "LEASE_RENEW_S", 20 * SOON_S)
    monkeypatch.setattr(heartbeat, "CLEAR_OPEN_S", SOON_S / 2)


@pytest.fixture
async def beating(a: FaultyNode) -> AsyncIterator[FaultyNode]:
    await a.core.heartbeat.start()
    yield a
    await a.core.heartbeat.stop()


@pytest.fixture
async def other(beating: FaultyNode, b: FaultyNode) -> AsyncIterator[FaultyNode]:
    """A second node, which the first knows."""
    await b.core.heartbeat.start()
    assert beating.core.registry.others == {"b"} and b.core.registry.others == {"a"}
    yield b
    await b.core.heartbeat.stop()


async def until_ms(node: FaultyNode, node_id: str) -> int:
    return int(await node.command("ZSCORE", node.core.keys.nodes, node_id) or 0)


async def test_a_mistake_ends_neither_the_leases_nor_the_work(beating: FaultyNode) -> None:
    async def mistake(do: object) -> None:
        raise KeyspaceMistake("NOPERM")

    for name in ("ZSCORE", "ZRANGEBYSCORE"):
        beating.keyspace.fail(name, mistake)
        before = beating.keyspace.said.count(name)
        while beating.keyspace.said.count(name) < before + 2:
            await asyncio.sleep(SOON_S)


async def test_a_lease_that_was_gone_is_remembered_until_the_others_know_again(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    async with telling(a, b):
        await b.core.heartbeat._renew(has_connections=False)
        await a.command("ZREM", a.core.keys.nodes, "b")  # taken for dead
        b.keyspace.fail("SPUBLISH", down)
        with pytest.raises(StoreError):
            await b.core.heartbeat._renew(has_connections=False)
        assert b.core.heartbeat._suspect_s is None
        await b.core.heartbeat._renew(has_connections=False)
        assert b.core.heartbeat._suspect_s is not None, "what passed by is read, once they route to us"


async def test_a_node_says_that_it_lives_while_a_repair_takes_long(beating: FaultyNode) -> None:
    gate = Gate()
    beating.keyspace.fail("ZRANGEBYSCORE", gate)  # looking for dead nodes
    await gate.reached.wait()
    first = await until_ms(beating, "a")
    renewals = beating.keyspace.said.count("ZRANGE")
    await eventually(lambda: beating.keyspace.said.count("ZRANGE") > renewals + 2)
    assert await until_ms(beating, "a") > first
    gate.opened.set()


async def test_a_node_stopped_beyond_its_lease_drops_its_queued_sends(beating: FaultyNode, direct: str) -> None:
    gate = Gate()
    beating.faulty_log.faults.append(gate)
    under_way = beating.submit("alice", direct, "m1")
    await gate.reached.wait()
    queued = [beating.submit("alice", direct, f"m{n}", origin="phone") for n in (2, 3)]
    beating.clock.elapsed_s += NODE_LEASE_S + 1
    assert [code_of(await answer) for answer in queued] == ["unavailable", "unavailable"]
    gate.opened.set()
    assert code_of(await under_way) == "stored", "its numbers are decided by the table, as always"
    assert code_of(await beating.submit("alice", direct, "m3", origin="phone")) == "held", "m2 is not overtaken"
    assert code_of(await beating.submit("alice", direct, "m2", origin="phone")) == "stored"


async def test_a_node_that_was_stopped_lets_nothing_new_out_before_it_has_read_what_it_slept_through(
    beating: FaultyNode, other: FaultyNode, group: str
) -> None:
    bob = await connect(other, "bob")
    await beating.send("alice", group, "m1")
    await eventually(lambda: bob.seqs() == [1])
    await eventually(lambda: other.core.heartbeat._suspect_s is None and not other.core.heartbeat._missed)
    stopped = Gate()
    other.keyspace.fail("TIME", stopped)  # in the middle of a heartbeat
    await stopped.reached.wait()
    other.core.heartbeat._well_s -= 120
    pass_time(other, 120)  # nobody published these to a node without a lease
    await write(beating, group, 2, 2, age_ms=110_000)
    # A node whose clock is ahead takes the other's work for old and may close its number, so numbers may be left out.
    fourth = (await beating.send("alice", group, "m4")).entry.seq_no
    await eventually(lambda: bool(other.core.deliver._sequencers[group].held))
    stopped.opened.set()
    await eventually(lambda: fourth in bob.seqs())
    fifth = (await beating.send("alice", group, "m5")).entry.seq_no
    await eventually(lambda: fifth in bob.seqs())
    assert bob.seqs() == sorted(bob.seqs()) and {1, 2, 3, fourth, fifth} <= set(bob.seqs())


async def test_a_node_that_keeps_its_lease_drops_nothing(beating: FaultyNode, direct: str) -> None:
    gate = Gate()
    beating.faulty_log.faults.append(gate)
    first = beating.submit("alice", direct, "m1")
    await gate.reached.wait()
    second = beating.submit("alice", direct, "m2")
    renewals = beating.keyspace.said.count("ZRANGE")
    beating.clock.elapsed_s += NODE_LEASE_S / 2
    await eventually(lambda: beating.keyspace.said.count("ZRANGE") > renewals + 2)
    gate.opened.set()
    assert [code_of(await answer) for answer in (first, second)] == ["stored", "stored"]


async def test_a_node_that_was_taken_for_dead_is_known_again_and_reads_what_it_was_not_told(
    beating: FaultyNode, other: FaultyNode, group: str
) -> None:
    bob = await connect(other, "bob")
    await beating.send("alice", group, "m1")
    await eventually(lambda: bob.seqs() == [1])
    beat = Gate()
    other.keyspace.fail("ZSCORE", beat)  # its next renewal
    await beat.reached.wait()
    await beating.command("ZREM", beating.core.keys.nodes, "b")
    await eventually(lambda: not beating.core.registry.has_others)
    await beating.send("alice", group, "m2")  # to nobody: the node thinks that it is alone
    assert bob.seqs() == [1]
    beat.opened.set()
    await eventually(lambda: bob.seqs() == [1, 2])
    assert beating.core.registry.others == {"b"}
    await beating.send("alice", group, "m3")
    await eventually(lambda: bob.seqs() == [1, 2, 3])


async def test_after_every_subscription_what_was_published_meanwhile_is_read(
    beating: FaultyNode, other: FaultyNode, group: str, valkey: ValkeyProcess
) -> None:
    bob, carol = await connect(other, "bob"), await connect(other, "carol")
    await beating.send("alice", group, "m1")
    await eventually(lambda: bob.seqs() == [1])
    beating.keyspace.fail("SPUBLISH", unheard)
    await beating.send("alice", group, "m2")
    assert bob.seqs() == [1]
    valkey.command("CLIENT", "KILL", "TYPE", "pubsub")
    await eventually(lambda: bob.seqs() == [1, 2] and carol.seqs() == [1, 2])


async def test_an_edit_that_was_published_meanwhile_is_read_though_it_moves_no_inbox(
    beating: FaultyNode, other: FaultyNode, group: str, valkey: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "_DEAF_S", 0)
    monkeypatch.setattr(deliver, "SEAM_S", 0)
    bob = await connect(other, "bob")
    await beating.send("alice", group, "m1")
    sent_s = other.clock.monotonic_s()
    await eventually(lambda: bob.seqs() == [1] and other.core.heartbeat._well_s > sent_s)
    beating.keyspace.fail("SPUBLISH", unheard)
    await beating.core.rewrites.edit("alice", group, 1, ContentPatch("better"))
    valkey.command("CLIENT", "KILL", "TYPE", "pubsub")
    await eventually(lambda: bob.seqs() == [1, 2])


async def test_what_could_not_be_read_is_read_when_the_stores_answer(
    beating: FaultyNode, other: FaultyNode, group: str, valkey: ValkeyProcess
) -> None:
    devices = [await connect(other, user_id) for user_id in ("bob", "carol")]
    beating.keyspace.fail("SPUBLISH", unheard)
    await beating.send("alice", group, "m1")
    other.keyspace.fail("unread_state", down, down, down)
    valkey.command("CLIENT", "KILL", "TYPE", "pubsub")
    await eventually(lambda: all(device.seqs() == [1] for device in devices))


async def test_a_keyspace_that_forgot_everything_hears_of_all_leases_at_once(
    beating: FaultyNode, other: FaultyNode, group: str, valkey: ValkeyProcess
) -> None:
    bob = await connect(other, "bob", device="phone")
    await beating.send("alice", group, "m1")
    await eventually(lambda: bob.seqs() == [1])
    valkey.command("FLUSHALL")
    await beating.send("alice", group, "m2")  # perhaps to nobody
    await eventually(lambda: bob.seqs() == [1, 2])
    assert await beating.core.registry.nodes_of(["bob"]) == {"b": {"bob"}}
    assert (await beating.command("HGET", beating.core.keys.session("bob"), "phone")).startswith(b"b:")


async def test_what_others_publish_goes_where_it_belongs(beating: FaultyNode) -> None:
    await beating.core.bus.publish_now("a", Joined("newcomer"))
    await eventually(lambda: "newcomer" in beating.core.registry.others)


async def test_a_node_that_leaves_says_what_it_still_has_to_say(beating: FaultyNode, b: FaultyNode, group: str) -> None:
    bob = await connect(beating, "bob")
    await b.core.heartbeat.start()
    carol = await connect(b, "carol")
    b.keyspace.fail("SPUBLISH", down)  # it is repeated a little later
    await b.send("alice", group, "m1")
    b.core.hub.detach(carol)
    b.core.registry.release(carol)
    await b.core.heartbeat.stop()
    await eventually(lambda: bob.seqs() == [1])
    assert await until_ms(beating, "b") == 0
    assert await beating.core.registry.is_online(["carol"]) == {"carol": False}


async def test_a_node_without_a_keyspace_still_leaves(beating: FaultyNode, b: FaultyNode, group: str) -> None:
    await b.core.heartbeat.start()
    await connect(beating, "bob")
    b.keyspace.fail("SPUBLISH", *[down] * 1_000)
    await b.send("alice", group, "m1")
    await asyncio.wait_for(b.core.heartbeat.stop(), 60)


async def test_what_an_earlier_life_under_the_same_name_left_is_finished_before_anything_new(
    a: FaultyNode, settings: Settings, direct: str
) -> None:
    await a.send("alice", direct, "m1")
    a.keyspace.fail("inbox_index", down)
    with pytest.raises(Problem):
        await a.core.rewrites.delete("alice", direct, 1)  # stored, and nobody's count knows; then the node dies
    async with open_faulty(settings, "a") as again:
        await again.core.heartbeat.start()
        assert await again.unread("bob") == 0 and await again.wrong() == []
        await again.core.heartbeat.stop()
