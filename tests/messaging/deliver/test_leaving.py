"""Leaving: who was a member at the number of an entry gets it, whichever member list a node has by then."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import Device, FaultyNode
from tests.support.messaging.two_nodes import connect, member_list_of, write
from tests.support.waiting import eventually
from tidings.messaging.access import MemberList
from tidings.messaging.deliver import fan_out
from tidings.model import Entry
from tidings.pushes import ConversationAdded, ConversationRemoved, MessageNew
from tidings.routing.bus import Delivery

NOBODY: dict[int, str | None] = {}


@contextmanager
def unrouted(node: FaultyNode) -> Any:
    """The lanes of the node store, and do not route."""
    route = node.core.deliver.route

    async def lost(*args: Any) -> None:
        """The lane's word does not come."""

    node.core.deliver.route = lost  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        node.core.deliver.route = route  # type: ignore[method-assign]


def news(device: Device) -> list[int | type]:
    """The numbers of the entries, and the kinds of the other news about members, in the order pushed."""
    kinds = (MessageNew, ConversationAdded, ConversationRemoved)
    return [
        event.entry.seq_no if isinstance(event, MessageNew) else type(event)
        for event in device.events
        if isinstance(event, kinds)
    ]


async def stored(node: FaultyNode, conversation_id: str, *gone: str) -> tuple[MemberList, list[Entry]]:
    """Entries 1 to 3, then the removals of these users. Returns the list of before, and the log."""
    old = await member_list_of(node, conversation_id)
    first, _, _ = await write(node, conversation_id, 1, 3)
    node.core.deliver.accept(old, [first], {}, NOBODY)
    with unrouted(node):
        for user_id in gone:
            await node.core.directory.remove("alice", conversation_id, user_id)
        await node.send("alice", conversation_id, "after")
    return old, await node.log(conversation_id)


async def test_a_newer_list_and_then_an_older_one_make_no_member_miss_an_entry_and_get_the_next(
    a: FaultyNode, group: str
) -> None:
    bob, carol = await connect(a, "bob"), await connect(a, "carol")
    old, log = await stored(a, group, "bob")
    new = await member_list_of(a, group)
    a.core.deliver.accept(new, [log[1]], {}, NOBODY)
    a.core.deliver.accept(old, [log[2]], {}, NOBODY)
    assert bob.seqs() == carol.seqs() == [1, 2, 3]
    a.core.deliver.accept(new, log[3:], {}, NOBODY)
    assert carol.seqs() == [1, 2, 3, 4, 5]
    assert news(bob) == [1, 2, 3, ConversationRemoved]  # nothing above the removal


async def test_the_removal_is_read_from_the_log_where_nobody_publishes_it(a: FaultyNode, group: str) -> None:
    bob = await connect(a, "bob")
    _, log = await stored(a, group, "bob")
    a.core.deliver.accept(await member_list_of(a, group), [log[1]], {}, NOBODY)
    await eventually(lambda: ConversationRemoved(group) in bob.events)
    assert [one for one in news(bob) if one is not ConversationRemoved] == [1, 2, 3]
    assert news(bob)[-1] is ConversationRemoved


async def test_a_gap_that_is_read_after_a_removal_reaches_the_member_who_was_there(a: FaultyNode, group: str) -> None:
    bob, carol = await connect(a, "bob"), await connect(a, "carol")
    _, log = await stored(a, group, "bob")
    a.core.deliver.accept(await member_list_of(a, group), log[4:], {}, NOBODY)
    await eventually(lambda: carol.seqs() == [1, 2, 3, 4, 5])
    assert bob.seqs() == [1, 2, 3] and news(bob)[-1] is ConversationRemoved


async def test_between_two_removals_only_those_who_are_left_get_entries(a: FaultyNode, group: str) -> None:
    bob, carol, alice = await connect(a, "bob"), await connect(a, "carol"), await connect(a, "alice")
    old = await member_list_of(a, group)
    a.core.deliver.accept(old, await write(a, group, 1, 1), {}, NOBODY)
    with unrouted(a):
        await a.core.directory.remove("alice", group, "bob")
        await a.send("alice", group, "between")
        await a.core.directory.remove("alice", group, "carol")
        await a.send("alice", group, "after")
    log, new = await a.log(group), await member_list_of(a, group)
    for entry in log[1:]:
        a.core.deliver.accept(new, [entry], {}, NOBODY)
    assert (bob.seqs(), carol.seqs(), alice.seqs()) == ([1], [1, 2, 3], [1, 2, 3, 4, 5])


async def test_who_comes_back_gets_what_was_before_the_removal_and_what_is_after_the_return(
    a: FaultyNode, group: str
) -> None:
    bob = await connect(a, "bob")
    old = await member_list_of(a, group)
    first, _ = await write(a, group, 1, 2)
    a.core.deliver.accept(old, [first], {}, NOBODY)
    with unrouted(a):
        await a.core.directory.remove("alice", group, "bob")
        await a.send("alice", group, "away")
        await a.core.directory.add("alice", group, ["bob"], is_server=True)
        await a.send("alice", group, "back")
    log, new = await a.log(group), await member_list_of(a, group)
    for entry in log[1:]:
        a.core.deliver.accept(new, [entry], {}, NOBODY)
    await eventually(lambda: 6 in bob.seqs())
    assert news(bob) == [1, 2, ConversationAdded, 6]


async def test_of_a_membership_that_came_and_went_before_it_was_told_nothing_is_pushed(
    a: FaultyNode, group: str
) -> None:
    """Its entries would come behind `conversation.added` of the membership of now, and a gap behind them."""
    bob = await connect(a, "bob")
    with unrouted(a):
        await a.core.directory.remove("alice", group, "bob")
    a.core.deliver.accept(await member_list_of(a, group), await a.log(group), {}, NOBODY)
    with unrouted(a):
        await a.core.directory.add("alice", group, ["bob"], is_server=True)
        await a.send("alice", group, "short")
    await member_list_of(a, group)
    with unrouted(a):
        await a.core.directory.remove("alice", group, "bob")
        await a.send("alice", group, "away")
        await a.core.directory.add("alice", group, ["bob"], is_server=True)
        await a.send("alice", group, "back")
    log = await a.log(group)
    a.core.deliver.accept(await member_list_of(a, group), log[1:], {}, NOBODY)
    await eventually(lambda: log[-1].seq_no in bob.seqs())
    told = news(bob)
    assert told[told.index(ConversationAdded) :] == [ConversationAdded, log[-1].seq_no], told


async def test_what_waits_in_a_burst_goes_out_before_the_news_of_a_later_join(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slice with the entries of the first membership is still to come when the second one begins."""
    devices = [await connect(a, user_id) for user_id in ("bob", "carol")]
    entries = await write(a, group, 1, 4)
    monkeypatch.setattr(fan_out, "PUSHES_AT_ONCE", 1)
    is_quiet = asyncio.Event()
    monkeypatch.setattr(a.core.deliver._fan_out, "quiet", is_quiet.wait)
    a.core.deliver.accept(await member_list_of(a, group), entries, {}, NOBODY)
    late = next(device for device in devices if not device.seqs())
    with unrouted(a):
        await a.core.directory.remove("alice", group, late.user_id)
        await a.core.directory.add("alice", group, [late.user_id], is_server=True)
        await a.send("alice", group, "back")
        new, log = await member_list_of(a, group), await a.log(group)
    assert not late.seqs(), "the test would show nothing"
    a.core.deliver.accept(new, log[4:], {}, NOBODY)
    await eventually(lambda: not a.core.deliver.membership_events.joining)
    is_quiet.set()
    await eventually(lambda: log[-1].seq_no in late.seqs() and 4 in late.seqs())
    told = news(late)
    assert told[:4] == [1, 2, 3, 4] and told[-2:] == [ConversationAdded, log[-1].seq_no], told


async def test_of_a_membership_that_came_and_went_while_a_burst_went_out_nothing_follows_the_later_join(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries wait in the burst, and the row that is read for it is already that of the membership of now."""
    devices = [await connect(a, user_id) for user_id in ("bob", "carol")]
    entries = await write(a, group, 1, 2)
    monkeypatch.setattr(fan_out, "PUSHES_AT_ONCE", 1)
    is_quiet = asyncio.Event()
    monkeypatch.setattr(a.core.deliver._fan_out, "quiet", is_quiet.wait)
    with unrouted(a):
        await a.core.directory.remove("alice", group, "bob")
    removed = await a.log(group)
    a.core.deliver.accept(await member_list_of(a, group), removed, {}, NOBODY)
    bob = devices[0]
    for word in ("short", "away", "back"):
        is_joined = word != "away"
        with unrouted(a):
            if is_joined:
                await a.core.directory.add("alice", group, ["bob"], is_server=True)
            else:
                await a.core.directory.remove("alice", group, "bob")
            await a.send("alice", group, word)
        log = await a.log(group)
        a.core.deliver.accept(await member_list_of(a, group), log[len(removed) :], {}, NOBODY)
        removed = log
    assert entries and not bob.seqs() and a.core.deliver._fan_out._lines, "the test would show nothing"
    is_quiet.set()
    last = removed[-1].seq_no
    await eventually(lambda: last in bob.seqs() and not a.core.deliver._tasks)
    assert [one for one in news(bob) if one is not ConversationRemoved] == [ConversationAdded, last], news(bob)


async def test_a_membership_that_ended_before_it_was_told_gets_no_entry_behind_a_skip(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    """Node a does not know of the removal yet. The row is gone, so the entries that waited for it are dropped."""
    bob, carol = await connect(a, "bob"), await connect(a, "carol")
    await b.core.directory.remove("alice", group, "bob")
    await eventually(lambda: ConversationRemoved(group) in bob.events)
    with unrouted(b):
        await b.core.directory.add("alice", group, ["bob"], is_server=True)
        for word in ("first", "second"):
            await b.send("alice", group, word)
        with_bob, log = await member_list_of(b, group), await b.log(group)
        await b.core.directory.remove("alice", group, "bob")
    joined, first, second = [entry for entry in log if entry.seq_no > carol.seqs()[-1]]
    a.core.deliver.accept(with_bob, [joined, first], {}, NOBODY)
    await eventually(lambda: not a.core.deliver.membership_events.joining)
    a.core.deliver.accept(with_bob, [second], {}, NOBODY)
    await eventually(lambda: second.seq_no in carol.seqs())
    assert first.seq_no not in bob.seqs() and second.seq_no not in bob.seqs()


async def test_the_removal_is_told_again_behind_what_waits_in_a_burst(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that gets an entry takes itself for a member again."""
    devices = [await connect(a, user_id) for user_id in ("bob", "carol")]
    entries = await write(a, group, 1, 4)
    monkeypatch.setattr(fan_out, "PUSHES_AT_ONCE", 1)
    is_quiet = asyncio.Event()
    monkeypatch.setattr(a.core.deliver._fan_out, "quiet", is_quiet.wait)
    a.core.deliver.accept(await member_list_of(a, group), entries, {}, NOBODY)
    late = next(device for device in devices if not device.seqs())
    with unrouted(a):
        await a.core.directory.remove("alice", group, late.user_id)
    a.core.hub.push(late.user_id, ConversationRemoved(group))  # the node of its lane says so
    a.core.deliver.accept(await member_list_of(a, group), (await a.log(group))[4:], {}, NOBODY)
    is_quiet.set()
    await a.core.deliver._fan_out.settle(group)
    assert news(late) == [ConversationRemoved, 1, 2, 3, 4, ConversationRemoved]


async def test_a_removal_whose_burst_took_long_is_not_told_to_who_came_back_meanwhile(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lane of another node may add a member while the lane of the removal still waits for its pushes."""
    bob, _ = await connect(a, "bob"), await connect(a, "carol")
    entries = await write(a, group, 1, 2)
    monkeypatch.setattr(fan_out, "PUSHES_AT_ONCE", 1)
    is_quiet = asyncio.Event()
    monkeypatch.setattr(a.core.deliver._fan_out, "quiet", is_quiet.wait)
    a.core.deliver.accept(await member_list_of(a, group), entries, {}, NOBODY)
    with unrouted(a):
        await a.core.directory.remove("alice", group, "bob")
    removal = (await a.log(group))[2:]
    routing = asyncio.ensure_future(a.core.deliver.route(await member_list_of(a, group), removal, {}, {}))
    await asyncio.sleep(0)
    with unrouted(a):
        await a.core.directory.add("alice", group, ["bob"], is_server=True)
        await a.send("alice", group, "back")
    back = (await a.log(group))[3:]
    a.core.deliver.accept(await member_list_of(a, group), back, {}, NOBODY)
    assert not routing.done(), "the test would show nothing"
    is_quiet.set()
    await routing
    await eventually(lambda: not a.core.deliver._tasks and not a.core.router._sending)
    assert news(bob)[-2:] == [ConversationAdded, back[-1].seq_no], news(bob)


async def test_who_is_missed_by_a_stream_that_begins_gets_no_later_entry_from_an_older_list(
    a: FaultyNode, group: str
) -> None:
    bob, carol = await connect(a, "bob"), await connect(a, "carol")
    old, (first, second) = await member_list_of(a, group), await write(a, group, 1, 2)
    with unrouted(a):
        await a.core.directory.remove("alice", group, "bob")
    a.core.deliver.accept(await member_list_of(a, group), [first], {}, NOBODY)
    a.core.deliver.accept(old, [second], {}, NOBODY)
    assert carol.seqs() == [1, 2] and bob.seqs() == []


async def test_a_node_that_was_told_of_a_removal_pushes_entries_of_another_node_below_it(
    a: FaultyNode, b: FaultyNode, two: None, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node b reads the list without bob while entries of node a are on their way to it."""
    bob, carol = await connect(b, "bob"), await connect(b, "carol")
    await a.send("alice", group, "m1")
    await eventually(lambda: bob.seqs() == carol.seqs() == [1])
    take, late = b.core.deliver.take, list[tuple[Delivery, str]]()
    monkeypatch.setattr(b.core.deliver, "take", lambda *args: late.append(args))
    await a.send("alice", group, "m2")
    await a.send("alice", group, "m3")
    await eventually(lambda: len(late) == 2)
    await a.core.directory.remove("alice", group, "bob")
    await eventually(lambda: ConversationRemoved(group) in bob.events)
    await b.core.access.authorize("carol", group, "read")
    for args in late:
        take(*args)
    await eventually(lambda: carol.seqs() == [1, 2, 3, 4])
    assert bob.seqs() == [1, 2, 3] and news(bob)[-1] is ConversationRemoved
