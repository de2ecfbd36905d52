"""Deliver: each device gets each entry once, in the order of the log, whatever becomes of the publishes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import After, Device, FaultyNode, Gate, answer_lost, down
from tests.support.messaging.two_nodes import connect, disconnect, member_list_of, shown, unheard, write
from tests.support.waiting import eventually
from tidings.bounds import PAGE_MAX, STREAM_IDLE_S
from tidings.errors import Problem
from tidings.messaging.deliver import route as deliver
from tidings.model import Content, ContentPatch, Entry
from tidings.pushes import ConversationAdded, ConversationRemoved, MessageNew, ReadSynced
from tidings.routing.bus import Delivery

NOBODY: dict[int, str | None] = {}


async def came(device: Device, *seqs: int) -> None:
    await eventually(lambda: len(device.seqs()) >= len(seqs))
    assert device.seqs() == list(seqs)


# --- in order -------------------------------------------------------------------------------------


async def test_an_entry_that_is_not_the_next_waits_for_the_one_before(a: FaultyNode, group: str) -> None:
    bob = await connect(a, "bob")
    first, second, third = await write(a, group, 1, 3)
    member_list = await member_list_of(a, group)
    a.core.deliver.accept(member_list, [first], {}, NOBODY)
    a.core.deliver.accept(member_list, [third], {}, NOBODY)
    assert bob.seqs() == [1]
    a.core.deliver.accept(member_list, [second], {}, NOBODY)
    assert bob.seqs() == [1, 2, 3]


async def test_a_gap_is_read_from_the_log_however_long_it_is(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "GAP_AGAIN_S", 60)  # only a gap is waited for
    bob = await connect(a, "bob")
    entries = await write(a, group, 1, 3 * PAGE_MAX + 5)
    member_list = await member_list_of(a, group)
    a.core.deliver.accept(member_list, entries[:1], {}, NOBODY)
    a.core.deliver.accept(member_list, entries[-1:], {}, NOBODY)
    await came(bob, *(entry.seq_no for entry in entries))


async def test_an_open_slot_is_waited_for_and_then_closed_by_a_void(a: FaultyNode, group: str) -> None:
    bob = await connect(a, "bob")
    (first,) = await write(a, group, 1, 1)
    (third,) = await write(a, group, 3, 1)
    member_list = await member_list_of(a, group)
    a.core.deliver.accept(member_list, [first], {}, NOBODY)
    a.core.deliver.accept(member_list, [third], {}, NOBODY)
    await eventually(lambda: a.faulty_log.pages > 2)
    assert bob.seqs() == [1]
    a.clock.ahead_ms += 4_000
    await came(bob, 1, 2, 3)
    kinds = [event.entry.kind for event in bob.events if isinstance(event, MessageNew)]
    assert kinds == ["message", "void", "message"]


async def test_tables_that_do_not_answer_keep_a_gap_open_and_no_longer(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = await connect(a, "bob")
    entries = await write(a, group, 1, 3)
    member_list, after, tries = await member_list_of(a, group), a.core.log.after, 0

    async def fails_twice(*args: Any) -> list[Entry]:
        nonlocal tries
        tries += 1
        if tries < 3:
            await down(lambda: after(*args))
        return await after(*args)

    monkeypatch.setattr(a.core.log, "after", fails_twice)
    a.core.deliver.accept(member_list, entries[:1], {}, NOBODY)
    a.core.deliver.accept(member_list, entries[2:], {}, NOBODY)
    await came(bob, 1, 2, 3)
    assert tries == 3


async def test_a_member_list_that_was_read_before_somebody_left_is_not_asked_whom_to_push_to(
    a: FaultyNode, group: str
) -> None:
    """Whoever fills a gap may hold an old list while the entries it reads tell of a removal."""
    bob, carol = await connect(a, "bob"), await connect(a, "carol")
    old = await member_list_of(a, group)
    (first,) = await write(a, group, 1, 1)
    a.core.deliver.accept(old, [first], {}, NOBODY)
    await a.core.directory.remove("alice", group, "bob")
    await a.send("alice", group, "m3")
    await came(carol, 1, 2, 3)
    (fourth,) = await write(a, group, 4, 1)
    a.core.deliver.accept(old, [fourth], {}, NOBODY)
    await came(carol, 1, 2, 3, 4)
    assert bob.seqs() == [1]


async def test_what_was_held_is_pushed_to_those_who_are_members_by_then(a: FaultyNode, group: str) -> None:
    bob, carol = await connect(a, "bob"), await connect(a, "carol")
    old = await member_list_of(a, group)
    (first,) = await write(a, group, 1, 1)
    a.core.deliver.accept(old, [first], {}, NOBODY)
    stored = a.core.deliver.route

    async def lost(*args: Any) -> None:
        """The lane's word does not come."""

    a.core.deliver.route = lost  # type: ignore[method-assign,assignment]
    await a.core.directory.remove("alice", group, "bob")
    await a.send("alice", group, "m3")
    a.core.deliver.route = stored  # type: ignore[method-assign]
    log = await a.log(group)
    a.core.deliver.accept(old, log[1:], {}, NOBODY)  # read from the log, with the list of before
    await came(carol, 1, 2, 3)
    assert bob.seqs() == [1]


async def test_what_waits_in_a_conversation_that_is_gone_goes_nowhere(a: FaultyNode, group: str) -> None:
    bob = await connect(a, "bob")
    entries = await write(a, group, 1, 3)
    member_list = await member_list_of(a, group)
    a.core.deliver.accept(member_list, entries[:1], {}, NOBODY)
    await a.core.tables.conversations.delete(group)
    a.core.deliver.accept(member_list, entries[2:], {}, NOBODY)
    await eventually(lambda: not a.core.deliver._tasks)
    assert bob.seqs() == [1]


async def test_a_lively_conversation_is_not_forgotten_for_newer_ones(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "CONVERSATIONS_CACHED_MAX", 3)
    bob = await connect(a, "bob")
    entries = await write(a, group, 1, 8)
    member_list = await member_list_of(a, group)
    for n, entry in enumerate(entries):
        a.core.deliver.accept(member_list, [entry], {}, NOBODY)
        view, _ = await a.core.directory.create("bob", kind="group", members=[])
        await a.send("bob", view.head.conversation_id, "m")
        a.core.deliver.accept(member_list, entries[: n + 1], {}, NOBODY)  # nothing new
    entries = [event.entry for event in bob.events if isinstance(event, MessageNew)]
    assert [entry.seq_no for entry in entries if entry.conversation_id == group] == list(range(1, 9))
    assert len(a.core.deliver._sequencers) == 3


# --- to the right devices -------------------------------------------------------------------------


async def test_every_device_but_the_one_that_sent_it_gets_an_entry(a: FaultyNode, b: FaultyNode, two: None) -> None:
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob"])
    c = view.head.conversation_id
    phone, laptop = await connect(a, "alice", "phone"), await connect(b, "alice", "laptop")
    bobs = [await connect(node, "bob") for node in (a, b)]
    await a.submit("alice", c, "m1", origin="phone")
    for device in (laptop, *bobs):
        await came(device, 1)
    assert phone.seqs() == []


async def test_a_node_is_told_once_per_batch_and_only_where_somebody_listens(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    for user_id in ("bob", "carol"):
        await connect(b, user_id)
    bob = await connect(b, "bob", "second")
    before = len(a.keyspace.said)
    await asyncio.gather(*(a.submit("alice", group, f"m{n}") for n in range(5)))
    await came(bob, 1, 2, 3, 4, 5)
    assert a.keyspace.said[before:].count("SPUBLISH") <= 2, "one for the first batch, one for what gathered meanwhile"
    for device in list(b.core.hub):
        disconnect(b, device)  # type: ignore[arg-type]
    await eventually(lambda: not b.core.registry._tasks)
    before = len(a.keyspace.said)
    await a.send("alice", group, "m5")
    assert "SPUBLISH" not in a.keyspace.said[before:]


async def test_a_member_who_was_removed_gets_nothing_more(a: FaultyNode, b: FaultyNode, two: None, group: str) -> None:
    bob, carol = await connect(b, "bob"), await connect(b, "carol")
    await a.send("alice", group, "m1")
    await came(carol, 1)
    await a.core.directory.remove("alice", group, "carol")
    await eventually(lambda: ConversationRemoved(group) in carol.events)
    await a.send("alice", group, "m2")
    await came(bob, 1, 2, 3)
    assert carol.seqs() == [1]


async def test_a_removal_that_a_node_was_not_told_of_holds_for_what_comes_after_it(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    bob, carol = await connect(b, "bob"), await connect(b, "carol")
    await a.send("alice", group, "m1")
    await came(carol, 1)
    a.keyspace.fail("SPUBLISH", unheard, unheard)  # the entry, and the word to carol
    await a.core.directory.remove("alice", group, "carol")
    await eventually(lambda: not a.core.bus._flushing and not a.core.router._sending)
    assert "carol" in (b.core.access.cached(group) or await member_list_of(b, group)).members
    await a.send("alice", group, "m2")
    await came(bob, 1, 2, 3)
    assert carol.seqs() == [1] and carol.events[-1] == ConversationRemoved(group)


async def test_who_went_and_came_while_a_node_heard_nothing_is_told_before_what_follows(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    bob, carol = await connect(b, "bob"), await connect(b, "carol")
    await a.send("alice", group, "m1")
    await came(carol, 1)
    a.keyspace.fail("SPUBLISH", *[unheard] * 20)  # the entries, and the words to carol
    await a.core.directory.remove("alice", group, "carol")
    await a.core.directory.add("alice", group, ["carol"])
    await eventually(lambda: not a.core.bus._flushing and not a.core.router._sending)
    a.keyspace._faults.clear()
    await a.send("alice", group, "m2")
    await came(bob, 1, 2, 3, 4)
    await came(carol, 1, 4)
    kinds = [type(event) for event in carol.events if not isinstance(event, ReadSynced)]
    assert kinds[:2] == [MessageNew, ConversationAdded] and carol.seqs() == [1, 4]


async def test_who_joins_is_told_and_sees_what_follows(a: FaultyNode, b: FaultyNode, two: None) -> None:
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob"], history="joined")
    c = view.head.conversation_id
    bob, dave = await connect(b, "bob"), await connect(b, "dave")
    await a.send("alice", c, "m1")
    await came(bob, 1)
    a.keyspace.fail("SPUBLISH", unheard)
    await a.send("alice", c, "m2")
    await a.core.directory.add("alice", c, ["dave"])
    await a.send("alice", c, "m3")
    await came(bob, 1, 2, 3, 4)
    await came(dave, 4)  # what was said before, and the joining itself, is not history of one who joined
    assert [event.item.row.conversation_id for event in dave.events if isinstance(event, ConversationAdded)] == [c]


async def test_what_the_bus_repeats_is_pushed_once(a: FaultyNode, b: FaultyNode, two: None, group: str) -> None:
    bob = await connect(b, "bob")
    entries = [(await a.send("alice", group, f"m{n}")).entry for n in range(3)]
    await came(bob, 1, 2, 3)
    again = Delivery(group, 0, tuple(entries), {"bob": (3, False, 3, 0, 0, None)})
    b.core.deliver.take(again, "a")
    b.core.deliver.take(again, "a")
    await a.send("alice", group, "m3")
    await came(bob, 1, 2, 3, 4)
    assert shown(bob) == []


# --- lost publishes -------------------------------------------------------------------------------


async def test_a_lost_publish_is_healed_by_the_next_entry(a: FaultyNode, b: FaultyNode, two: None, group: str) -> None:
    bob = await connect(b, "bob")
    await a.send("alice", group, "m1")
    await came(bob, 1)
    a.keyspace.fail("SPUBLISH", unheard)
    await a.send("alice", group, "m2")
    assert bob.seqs() == [1]
    await a.send("alice", group, "m3")
    await came(bob, 1, 2, 3)
    await eventually(lambda: shown(bob)[-1:] == [3])  # the one from the log came without a count


async def test_at_first_sight_a_node_looks_for_what_was_lost_just_before(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    await write(a, group, 1, 3, age_ms=60_000)
    bob = await connect(b, "bob")
    a.keyspace.fail("SPUBLISH", unheard)
    await a.send("alice", group, "m4")
    await a.send("alice", group, "m5")
    await came(bob, 4, 5)


async def test_entries_of_two_nodes_that_cross_at_first_sight_come_in_order(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    bob = await connect(b, "bob")
    gate = Gate()
    a.keyspace.fail("SPUBLISH", gate)
    await a.send("alice", group, "m1")
    await gate.reached.wait()
    await b.send("carol", group, "m2")
    await came(bob, 1, 2)
    gate.opened.set()
    await a.send("alice", group, "m3")
    await came(bob, 1, 2, 3)


async def test_what_a_lane_has_under_way_is_waited_for_so_that_its_sender_gets_ok_alone(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    alice, laptop = await connect(a, "alice"), await connect(a, "alice", "alice-laptop")
    await a.send("alice", group, "first")
    gate = After()
    a.keyspace.fail("inbox_index", gate)
    sending = a.submit("alice", group, "slow", origin=alice.connection_id)
    await gate.reached.wait()
    await b.send("carol", group, "later")  # node a hears of it while its own message is not routed
    await eventually(lambda: 3 in a.core.deliver._sequencers[group].held)
    await a.core.deliver.reread(0)
    assert (laptop.seqs(), alice.seqs()) == ([1], [1])
    gate.opened.set()
    await sending
    await came(laptop, 1, 2, 3)
    await came(alice, 1, 3)


async def test_what_a_lane_gave_up_but_is_stored_goes_out_from_the_log(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    alice = await connect(a, "alice")
    await a.send("alice", group, "first")
    a.keyspace.fail("inbox_index", down)
    answer = await a.submit("alice", group, "unsure", origin=alice.connection_id)
    assert isinstance(answer, Problem) and answer.is_temporary
    await b.send("carol", group, "later")
    await came(alice, 1, 2, 3)


async def test_a_stream_from_before_anybody_was_here_does_not_replay_the_past(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    (first,) = await write(b, group, 1, 1, age_ms=3_600_000)
    member_list = await member_list_of(b, group)
    b.core.deliver._sequencer(group).last = 0
    b.core.deliver.accept(member_list, [first], {}, NOBODY)
    await write(a, group, 2, 5, age_ms=1_800_000)  # while nobody was connected here
    b.clock.elapsed_s += STREAM_IDLE_S + 1
    bob = await connect(b, "bob")
    await a.send("alice", group, "m7")
    await came(bob, 7)
    await a.send("alice", group, "m8")
    await came(bob, 7, 8)


async def test_a_resend_of_an_old_message_does_not_replay_the_past(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    entries = await write(a, group, 1, 20, age_ms=3_600_000)
    bob, carol = await connect(a, "bob"), await connect(b, "carol")
    sent = await a.core.sends.send("alice", group, "log-5", Content(entries[4].text or ""))
    assert sent.is_duplicate and sent.entry.seq_no == 5
    await a.send("alice", group, "new")
    await eventually(lambda: bob.seqs()[-1:] == carol.seqs()[-1:] != [])
    assert min(bob.seqs() + carol.seqs()) > 20


# --- after trouble --------------------------------------------------------------------------------


async def test_a_refresh_reads_all_that_passed_a_user_by(a: FaultyNode, b: FaultyNode, two: None, group: str) -> None:
    bob = await connect(b, "bob")
    since_ms = b.clock.now_ms()
    await a.send("alice", group, "m1")
    await came(bob, 1)
    await write(a, group, 2, 2 * PAGE_MAX + 50)
    a.keyspace.fail("SPUBLISH", unheard)
    await a.command("DEL", a.core.keys.conv(group))  # numbering goes on behind what is in the log
    last = (await a.send("alice", group, "last")).entry.seq_no
    await b.core.deliver.refresh("bob", since_ms)
    await came(bob, *range(1, last + 1))
    assert last == 2 * PAGE_MAX + 52
    await b.core.deliver.refresh("bob", since_ms)
    assert len(bob.seqs()) == last


async def test_a_refresh_of_a_conversation_never_seen_begins_where_trouble_began(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    await write(a, group, 1, 3, age_ms=600_000)
    bob = await connect(b, "bob")
    a.keyspace.fail("SPUBLISH", unheard)
    await a.send("alice", group, "m4")
    await b.core.deliver.refresh("bob", b.clock.now_ms())
    await came(bob, 4)


async def test_what_passed_by_while_a_lease_was_lost_comes_before_the_next_but_nothing_from_before_the_connection(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    await write(a, group, 1, 2, age_ms=90_000)
    await write(a, group, 3, 2, age_ms=30_000)  # of these nobody told us
    bob = await connect(b, "bob")
    bob.opened_s -= 40
    (last,) = await write(a, group, 5, 1)
    b.core.deliver.accept(await member_list_of(b, group), [last], {}, NOBODY)
    await came(bob, 3, 4, 5)


async def test_what_is_new_to_a_member_begins_with_joining_also_where_all_of_history_is_open(
    a: FaultyNode, b: FaultyNode, two: None
) -> None:
    view, _ = await a.core.directory.create("alice", kind="channel", members=["carol"], name="news")
    channel = view.head.conversation_id
    bob, carol = await connect(b, "bob"), await connect(b, "carol")
    a.keyspace.fail("SPUBLISH", unheard, unheard)
    await a.send("alice", channel, "m1")
    await a.core.directory.add("alice", channel, ["bob"])
    await a.send("alice", channel, "m3")
    await came(carol, 1, 2, 3)
    await came(bob, 2, 3)
    assert [entry.seq_no for entry in (await b.core.history.page("bob", channel)).entries] == [3, 2, 1]


@pytest.mark.parametrize("is_seen", [True, False])
async def test_what_passed_by_above_an_open_slot_comes_when_the_slot_is_closed(
    a: FaultyNode, b: FaultyNode, two: None, group: str, is_seen: bool
) -> None:
    bob = await connect(b, "bob")
    if is_seen:
        await a.send("alice", group, "m1")
        await came(bob, 1)
    else:
        await write(a, group, 1, 1)
    await write(a, group, 3, 2)  # 2 is somebody's who has not stored it yet
    await b.core.deliver.refresh("bob", b.clock.now_ms()) if not is_seen else await b.core.deliver.reread(0)
    await came(bob, 1)
    await write(a, group, 2, 1)
    await came(bob, 1, 2, 3, 4)


async def test_edits_that_passed_by_are_found_though_they_move_no_inbox(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    bob = await connect(b, "bob")
    await a.send("alice", group, "m1")
    await came(bob, 1)
    a.keyspace.fail("SPUBLISH", unheard)
    await a.core.rewrites.edit("alice", group, 1, ContentPatch("better"))
    await b.core.deliver.reread(b.clock.now_ms())
    await came(bob, 1, 2)
    assert [event.entry.kind for event in bob.events if isinstance(event, MessageNew)] == ["message", "edit"]


async def test_who_is_not_connected_here_is_not_read_for(a: FaultyNode, b: FaultyNode, two: None, group: str) -> None:
    await a.send("alice", group, "m1")
    runs = len(b.keyspace.runs)
    await b.core.deliver.refresh("bob", 0)
    assert len(b.keyspace.runs) == runs


async def test_closing_ends_what_is_under_way(a: FaultyNode, group: str) -> None:
    await connect(a, "bob")
    (_, second) = await write(a, group, 1, 2)
    gate = After()
    a.keyspace.fail("HMGET", gate)
    member_list = await member_list_of(a, group)
    a.core.deliver._sequencer(group).last = 0
    a.core.deliver.accept(member_list, [second], {}, NOBODY)
    await gate.reached.wait()
    await a.core.deliver.close()
    assert not a.core.deliver._tasks


async def test_alone_what_a_failed_batch_stored_is_not_passed_over(a: FaultyNode, group: str) -> None:
    bob = await connect(a, "bob")
    a.keyspace.fail("inbox_index", down)
    assert await a.code("alice", group, "m1") == "unavailable"
    assert await a.code("alice", group, "m2") == "stored"
    await came(bob, 1, 2)


async def test_alone_a_number_that_was_handed_out_and_lost_is_waited_for(a: FaultyNode, group: str) -> None:
    bob = await connect(a, "bob")
    await a.core.counters.seed(group)
    a.keyspace.fail("conversation_number", answer_lost)
    assert await a.code("alice", group, "m1") == "unavailable"
    assert await a.code("carol", group, "m2") == "stored"
    assert await a.code("alice", group, "m1") == "stored"
    await came(bob, 1, 2, 3)
    assert [entry.kind for entry in await a.log(group)] == ["void", "message", "message"]


async def test_a_stream_begins_below_an_entry_that_a_server_with_a_later_clock_dated(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    bob = await connect(b, "bob")
    await write(a, group, 1, 1)  # its publish was lost with the server that dated it
    (second,) = await write(a, group, 2, 1, age_ms=-3_600_000)
    b.core.deliver.take(Delivery(group, 0, (second,), {}), "a")
    await came(bob, 1, 2)


async def test_a_stream_does_not_begin_above_an_open_slot(a: FaultyNode, b: FaultyNode, two: None, group: str) -> None:
    bob = await connect(a, "bob")
    entries = await write(a, group, 2, 3)
    a.core.deliver.accept(await member_list_of(a, group), entries[-1:], {}, NOBODY)
    await eventually(lambda: a.faulty_log.pages > 2)
    assert bob.seqs() == []
    await write(a, group, 1, 1)
    await came(bob, 1, 2, 3, 4)
