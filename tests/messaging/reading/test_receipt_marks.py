"""Ticks: where a conversation stands, from the keyspace while it is warm and from the tables when it is not."""

from __future__ import annotations

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, down
from tidings.messaging.access import MemberList
from tidings.messaging.reading.receipt_marks import Moved, Raise, ReceiptMarks
from tidings.stores.keyspace.scripts.receipts import ReceiptScripts
from tidings_proof.world.valkey import ValkeyProcess


@pytest.fixture
def receipt_marks(a: FaultyNode) -> ReceiptMarks:
    return ReceiptMarks(a.keyspace, ReceiptScripts(a.core.keys), a.tables.statuses)


async def member_list_of(node: FaultyNode, conversation_id: str) -> MemberList:
    member_list = await node.core.access.fresh(conversation_id)
    assert member_list is not None
    return member_list


async def moved(
    node: FaultyNode, receipt_marks: ReceiptMarks, c: str, user_id: str, delivered: int, read: int = 0
) -> Moved:
    """As receipts.py does it: the tables first."""
    await node.tables.statuses.deliver([(c, user_id, delivered)])
    if read:
        node.core.events.read_up_to.remove(node.core.receipts.read)
        await node.core.unread.mark_read(user_id, c, up_to_seq=read)
    one: Raise = (c, user_id, delivered, read)
    return (await receipt_marks.raise_all([one], {c: await member_list_of(node, c)}))[0]


async def test_a_conversation_without_receipts_stands_at_nothing(
    a: FaultyNode, receipt_marks: ReceiptMarks, group: str
) -> None:
    assert await receipt_marks.lowest(await member_list_of(a, group), but="alice") == (0, 0)


async def test_all_have_it_when_the_last_of_them_has(a: FaultyNode, receipt_marks: ReceiptMarks, group: str) -> None:
    member_list = await member_list_of(a, group)
    await moved(a, receipt_marks, group, "bob", 5)
    assert await receipt_marks.lowest(member_list, but="alice") == (0, 0)
    await moved(a, receipt_marks, group, "carol", 3)
    assert await receipt_marks.lowest(member_list, but="alice") == (3, 0)
    assert await receipt_marks.lowest(member_list, but="carol") == (0, 0), "alice has sent no receipt"


async def test_marks_go_forward_only_and_say_where_they_were(
    a: FaultyNode, receipt_marks: ReceiptMarks, group: str
) -> None:
    for n in range(7):
        await a.send("alice", group, f"m{n}")
    await receipt_marks.lowest(await member_list_of(a, group), but="alice")
    assert await moved(a, receipt_marks, group, "bob", 5) == Moved(5, 0, (0, 0))
    assert await moved(a, receipt_marks, group, "bob", 7, 6) == Moved(7, 6, (5, 0))
    assert await moved(a, receipt_marks, group, "bob", 4, 2) == Moved(7, 6, (7, 6))


async def test_what_the_keyspace_forgot_is_taken_from_the_tables(
    a: FaultyNode, receipt_marks: ReceiptMarks, group: str, valkey: ValkeyProcess
) -> None:
    for n in range(6):
        await a.send("alice", group, f"m{n}")
    await a.core.unread.mark_read("bob", group, up_to_seq=4)
    await a.tables.statuses.deliver([(group, "carol", 6)])
    for _ in range(2):
        assert await receipt_marks.lowest(await member_list_of(a, group), but="alice") == (4, 0)
        valkey.command("FLUSHALL")
    assert await moved(a, receipt_marks, group, "bob", 6) == Moved(6, 4, None), "the read mark is not forgotten with it"
    assert await moved(a, receipt_marks, group, "bob", 6) == Moved(6, 4, (6, 4)), "built on the way"
    assert await receipt_marks.lowest(await member_list_of(a, group), but="alice") == (6, 0)


async def test_who_joins_holds_nobody_up_and_who_leaves_does_not_either(
    a: FaultyNode, receipt_marks: ReceiptMarks, group: str
) -> None:
    for n in range(3):
        await a.send("alice", group, f"m{n}")
    for user_id in ("bob", "carol"):
        await moved(a, receipt_marks, group, user_id, 3, 3)
    assert await receipt_marks.lowest(await member_list_of(a, group), but="alice") == (3, 3)
    await a.core.directory.add("alice", group, ["dave"])  # entry 4
    assert await receipt_marks.lowest(await member_list_of(a, group), but="alice") == (3, 3)
    for user_id in ("bob", "carol"):
        await moved(a, receipt_marks, group, user_id, 4, 4)
    assert await receipt_marks.lowest(await member_list_of(a, group), but="alice") == (4, 4), (
        "dave begins where he joined"
    )
    await a.send("alice", group, "m5")
    for user_id in ("bob", "carol"):
        await moved(a, receipt_marks, group, user_id, 5, 5)
    assert await receipt_marks.lowest(await member_list_of(a, group), but="alice") == (4, 4)
    await a.core.directory.remove("alice", group, "dave")
    assert await receipt_marks.lowest(await member_list_of(a, group), but="alice") == (5, 5)


async def test_a_keyspace_that_is_down_is_not_needed_to_look(
    a: FaultyNode, receipt_marks: ReceiptMarks, group: str
) -> None:
    await a.tables.statuses.deliver([(group, "bob", 5), (group, "carol", 4)])
    member_list = await member_list_of(a, group)
    a.keyspace.fail("another script", down)
    assert await receipt_marks.lowest(member_list, but="alice") == (4, 0)


async def test_nobody_else_means_nothing_to_wait_for(a: FaultyNode, receipt_marks: ReceiptMarks) -> None:
    view, _ = await a.core.directory.create("alice", kind="group", members=[])
    c = view.head.conversation_id
    assert await receipt_marks.lowest(await member_list_of(a, c), but="alice") == (0, 0)


async def test_looking_costs_one_round_trip_while_it_is_warm(
    a: FaultyNode, receipt_marks: ReceiptMarks, group: str
) -> None:
    member_list = await member_list_of(a, group)
    await receipt_marks.lowest(member_list, but="alice")
    runs = len(a.keyspace.runs)
    await receipt_marks.lowest(member_list, but="bob")
    assert a.keyspace.runs[runs:] == [["another script"]]


async def test_what_was_read_was_delivered_though_the_keyspace_lost_that_mark(
    a: FaultyNode, receipt_marks: ReceiptMarks, group: str
) -> None:
    for number in range(5):
        await a.send("alice", group, f"m{number}")
    await moved(a, receipt_marks, group, "bob", 5, 5)
    await a.command("DEL", a.core.keys.delivered(group))
    late = (await receipt_marks.raise_all([(group, "bob", 3, 0)], {group: await member_list_of(a, group)}))[0]
    assert (late.delivered, late.read) == (5, 5)
