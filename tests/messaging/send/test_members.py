"""Members: who may send, also where the list in memory is older than the numbers."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools

import pytest

from tests.support.messaging.drafts import member_change
from tests.support.messaging.faulty_stores import (
    FaultyNode,
    Gate,
    answer_lost,
    code_of,
    down,
    open_faulty,
    record_members,
    told,
)
from tests.support.waiting import eventually
from tidings.config.settings import Settings
from tidings.errors import Forbidden, NotFound, Problem, TooLarge
from tidings.messaging.send import members
from tidings.messaging.send.lanes import Lane
from tidings.messaging.send.members import check_change
from tidings.model import MemberChange


async def test_who_was_removed_on_another_node_cannot_send_and_the_number_is_voided(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("bob", group, "m1")  # b has the member list now
    await a.core.directory.remove("alice", group, "bob")
    assert await b.code("bob", group, "m2") == "not_found"
    assert told(await b.log(group)) == [
        (1, "message", "m1"),
        (2, "member", (await b.log(group))[1].message_id),
        (3, "void", None),
    ]


async def test_a_message_of_others_is_not_shown_to_who_was_removed_on_another_node(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("carol", group, "m1")
    assert await a.unread("bob") == 1
    await a.core.directory.remove("alice", group, "bob")
    await b.send("carol", group, "m2")
    assert await b.unread("bob") == 0
    assert (await b.core.inbox.page("bob", limit=20, cursor=None)).items == []
    with pytest.raises(NotFound):
        await b.core.history.page("bob", group)
    assert await b.unread("alice") == 2 and await b.wrong() == []


async def test_a_batch_waits_for_a_member_change_that_another_node_has_under_way(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("bob", group, "m1")
    gate = Gate()
    a.faulty_log.faults.append(gate)
    removal = asyncio.ensure_future(a.core.directory.remove("alice", group, "bob"))
    await gate.reached.wait()
    send = b.submit("bob", group, "m2")
    other = asyncio.ensure_future(b.send("carol", group, "m3"))
    while "conversation_number" not in b.keyspace.runs[-1]:
        await asyncio.sleep(0.005)
    assert not send.done()
    gate.opened.set()
    await removal
    assert code_of(await send) == "not_found"
    assert (await other).entry.seq_no > 2


async def test_a_member_change_that_died_with_its_node_does_not_stop_the_conversation(
    a: FaultyNode, b: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await b.send("bob", group, "m1")
    a.faulty_log.faults.append(down)  # numbered, announced as the newest member change, and never stored
    with pytest.raises(Exception, match="store"):
        await a.core.directory.remove("alice", group, "bob")
    monkeypatch.setattr(members, "GAP_CLOSE_S", 0.2)
    answer = await b.send("bob", group, "m2")
    assert told(await b.log(group)) == [(1, "message", "m1"), (2, "void", None), (3, "message", "m2")]
    assert answer.entry.seq_no == 3
    times = [entry.sent_ms for entry in await b.log(group)]
    assert times == sorted(times)
    numbers, pages = itertools.count(3), -1
    async with asyncio.timeout(60):  # others of the node may still read the log
        while b.faulty_log.pages != pages:  # the list is as new as it can be: no send looks or waits again
            pages = b.faulty_log.pages
            await b.send("bob", group, f"m{next(numbers)}")
    await a.core.directory.remove("alice", group, "bob")
    assert await b.code("bob", group, "later") == "not_found"


async def test_a_member_change_that_died_while_it_waited_for_another_one_hides_that_one_from_nobody(
    a: FaultyNode, b: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a change is lost, and with it the only hint of a slower change below."""
    await b.send("carol", group, "m1")
    gate = Gate()
    a.faulty_log.faults.append(gate)
    removal = asyncio.ensure_future(a.core.directory.remove("alice", group, "carol"))
    await gate.reached.wait()
    b.keyspace.fail("conversation_number", answer_lost)
    with pytest.raises(Problem):
        await b.core.sends.change_members("alice", group, MemberChange("role", ("bob",), "admin"))
    monkeypatch.setattr(members, "GAP_CLOSE_S", 0.2)
    assert await b.code("carol", group, "m2") == "stored"
    gate.opened.set()
    await removal
    said = [entry.seq_no for entry in await b.log(group) if entry.sender_id == "carol"]
    removed = [entry.seq_no for entry in await b.log(group) if entry.member is not None]
    assert len(removed) == 1 and said < removed, "the slow change has lost its number, and took a later one"
    assert await b.code("carol", group, "m3") == "not_found"


async def test_a_number_that_was_voided_alone_tells_nobody_that_a_change_below_is_decided(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("carol", group, "m1")
    gate = Gate()
    a.faulty_log.faults.append(gate)
    removal = asyncio.ensure_future(a.core.directory.remove("alice", group, "carol"))
    await gate.reached.wait()
    await a.command("HSET", a.core.keys.conv(group), "seq", 3, "members_seq", 3)
    await b.core.log.close(group, 3, 3)  # as the takeover of a node does that had this number
    await b.core.access.authorize("carol", group, "read")
    late = b.submit("carol", group, "m2")
    gate.opened.set()
    await removal
    assert code_of(await late) == "not_found"
    with pytest.raises(NotFound):
        await b.core.access.authorize("carol", group, "read")


async def test_a_member_added_on_two_nodes_at_once_joins_once(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await b.send("alice", group, "m1")
    gate = Gate()
    b.keyspace.fail("conversation_number", gate)  # b has authorized with the list of before
    late = asyncio.ensure_future(b.core.sends.change_members("alice", group, MemberChange("added", ("dave",))))
    await gate.reached.wait()
    await a.core.directory.add("alice", group, ["dave"])
    await a.send("bob", group, "m2")
    gate.opened.set()
    with pytest.raises(NotFound, match="no such member"):
        await late
    assert await b.unread("dave") == 1, "joining again would have moved his beginning past m2"
    kinds = [entry.kind for entry in await b.log(group)]
    assert kinds == ["message", "member", "message", "void"]


async def test_a_member_removed_on_two_nodes_at_once_leaves_once(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await b.send("alice", group, "m1")
    gate = Gate()
    b.keyspace.fail("conversation_number", gate)
    late = asyncio.ensure_future(b.core.directory.remove("alice", group, "bob"))
    await gate.reached.wait()
    await a.core.directory.remove("alice", group, "bob")
    gate.opened.set()
    with pytest.raises(NotFound):
        await late
    assert [entry.kind for entry in await b.log(group)] == ["message", "member", "void"]


async def test_a_conversation_deleted_on_another_node_is_not_found(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await b.send("bob", group, "m1")
    await a.core.directory.delete("alice", group)
    assert await b.code("bob", group, "m2") == "not_found"
    assert b.core.access.cached(group) is None
    assert await b.code("bob", group, "m3") == "not_found"


async def test_a_conversation_deleted_while_its_members_change_is_not_found(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("bob", group, "m1")
    await a.core.directory.add("alice", group, ["dave"])
    gate = Gate()
    a.keyspace.fail("UNLINK", gate)  # the tables have forgotten it, the keyspace not yet
    deletion = asyncio.ensure_future(a.core.directory.delete("alice", group))
    await gate.reached.wait()
    assert await b.code("bob", group, "m2") == "not_found"
    gate.opened.set()
    await deletion


# --- a change that is under way elsewhere ------------------------------------------------------------


async def test_a_member_change_under_way_on_another_node_holds_up_only_its_own_conversation(
    a: FaultyNode, b: FaultyNode, group: str, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(b.core.sends, "_lanes", [Lane()])  # both conversations in one lane
    await b.send("bob", group, "m1")
    await b.send("alice", direct, "n1")
    gate = Gate()
    a.faulty_log.faults.append(gate)
    change = asyncio.ensure_future(a.core.directory.add("alice", group, ["erin"]))
    await gate.reached.wait()
    waiting = [b.submit("bob", group, "m2"), b.submit("bob", group, "m3")]
    assert code_of(await b.submit("alice", direct, "n2")) == "stored"
    later = b.submit("bob", group, "m4")  # the conversation waits as a whole, so its order is kept
    assert code_of(await b.submit("alice", direct, "n3")) == "stored"
    assert not any(one.done() for one in (*waiting, later))
    gate.opened.set()
    await change
    assert [code_of(answer) for answer in await asyncio.gather(*waiting, later)] == ["stored"] * 3
    assert [entry.message_id for entry in await b.log(group) if entry.kind == "message"] == ["m1", "m2", "m3", "m4"]
    assert await b.wrong() == []


async def test_a_node_that_drains_finishes_what_waits_for_a_member_change(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("bob", group, "m1")
    gate = Gate()
    a.faulty_log.faults.append(gate)
    change = asyncio.ensure_future(a.core.directory.add("alice", group, ["erin"]))
    await gate.reached.wait()
    sends = [b.submit("bob", group, "m2")]
    await eventually(lambda: bool(b.core.sends._finishing))
    sends.append(b.submit("bob", group, "m3"))
    drain = asyncio.ensure_future(b.core.sends.drain())
    gate.opened.set()
    await change
    await drain
    assert [code_of(await send) for send in sends] == ["stored"] * 2


# --- strangers ------------------------------------------------------------------------------------------


async def test_sends_to_conversations_of_others_are_read_together(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    reads = record_members(a)
    gate = Gate()
    a.faulty_log.faults.append(gate)
    first = a.submit("alice", group, "m2")
    await gate.reached.wait()
    lane = a.core.sends._lane_of(group)
    strangers = [a.submit("zoe", id_, "m") for id_ in _in_lane(a, lane, 50)]
    stranger = a.submit("zoe", group, "m")
    gate.opened.set()
    answers = await asyncio.gather(*strangers, stranger)
    assert {code_of(answer) for answer in answers} == {"not_found"} and code_of(await first) == "stored"
    assert reads.count("heads") <= 2 and reads.count("members") == 0


async def test_a_stranger_sends_after_the_same_reads_whether_the_conversation_exists_or_not(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    reads = record_members(a)
    seen = []
    for conversation_id in (group, "c-none"):
        reads.clear()
        a.keyspace.runs.clear()
        assert await a.code("zoe", conversation_id, "m") == "not_found"
        seen.append((list(reads), a.keyspace.runs.copy()))
    assert seen[0] == seen[1] == (["heads"], [["limiter_admit"]])


async def test_a_stranger_who_comes_again_at_once_is_refused_from_memory_for_a_second(
    a: FaultyNode, group: str
) -> None:
    reads = record_members(a)
    for conversation_id in (group, "c-none"):
        reads.clear()
        assert [await a.code("zoe", conversation_id, f"m{i}") for i in range(20)] == ["not_found"] * 20
        assert reads.count("heads") == 2
    a.clock.elapsed_s += 1.5
    await a.core.directory.add("alice", group, ["zoe"])
    assert await a.code("zoe", group, "m") == "stored"


async def test_who_was_refused_once_and_then_added_on_another_node_can_send(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    assert await b.code("zoe", group, "m1") == "not_found"
    await a.core.directory.add("alice", group, ["zoe"])
    assert await b.code("zoe", group, "m1") == "stored"


def _in_lane(node: FaultyNode, lane: Lane, count: int) -> list[str]:
    """Names of conversations that do not exist, of one lane."""
    names = (f"c-none{i}" for i in itertools.count())
    return list(itertools.islice((name for name in names if node.core.sends._lane_of(name) is lane), count))


# --- rules that only the lane can hold: two changes at once ------------------------------------------------


async def test_changes_at_once_do_not_make_more_members_than_there_may_be(settings: Settings) -> None:
    async with open_faulty(dataclasses.replace(settings, members_max=50), "a") as a:
        view, _ = await a.core.directory.create("alice", kind="channel", members=[f"u{i}" for i in range(44)])
        id_ = view.head.conversation_id
        adds = [a.core.directory.add("alice", id_, [f"x{n}-{i}" for i in range(2)]) for n in range(10)]
        answers = await asyncio.gather(*adds, return_exceptions=True)
        assert sum(isinstance(answer, TooLarge) for answer in answers) == 8
        assert len(await a.tables.conversations.members(id_)) == 49


async def test_adds_on_two_nodes_at_once_do_not_make_more_members_than_there_may_be(settings: Settings) -> None:
    settings = dataclasses.replace(settings, members_max=4)
    async with open_faulty(settings, "a") as a, open_faulty(settings, "b") as b:
        view, _ = await a.core.directory.create("alice", kind="group", members=["bob", "carol"])
        id_ = view.head.conversation_id
        await b.send("bob", id_, "m1")
        gate = Gate()
        b.keyspace.fail("conversation_number", gate)
        late = asyncio.ensure_future(b.core.directory.add("alice", id_, ["dave"]))
        await gate.reached.wait()
        await a.core.directory.add("alice", id_, ["erin"])
        gate.opened.set()
        with pytest.raises(TooLarge):
            await late
        assert len(await a.tables.conversations.members(id_)) == 4


async def test_two_owners_who_leave_at_once_leave_an_owner_behind(a: FaultyNode, group: str) -> None:
    await a.core.directory.set_role("alice", group, "bob", "owner")
    await asyncio.gather(*(a.core.directory.remove(user_id, group, user_id) for user_id in ("alice", "bob")))
    assert [(member.user_id, member.role) for member in await a.tables.conversations.members(group)] == [
        ("carol", "owner")
    ]


async def test_two_owners_who_step_down_at_once_leave_one(a: FaultyNode, group: str) -> None:
    await a.core.directory.set_role("alice", group, "bob", "owner")
    steps = [a.core.directory.set_role(user_id, group, user_id, "member") for user_id in ("alice", "bob")]
    answers = await asyncio.gather(*steps, return_exceptions=True)
    assert sum(isinstance(answer, Forbidden) for answer in answers) == 1
    roles = [member.role for member in await a.tables.conversations.members(group)]
    assert roles.count("owner") == 1


# --- member changes that are checked again ---------------------------------------------------------


def test_a_change_keeps_what_is_left_to_do() -> None:
    group = member_change(MemberChange("added", ("bob", "carol")), {"alice": "owner", "bob": "member"})
    check_change(group, 1_000)
    assert group.drafts[0].change == MemberChange("added", ("carol",))


@pytest.mark.parametrize(
    ("change", "sender_id", "problem"),
    [
        (MemberChange("added", ("bob",)), "alice", NotFound),  # he came in meanwhile
        (MemberChange("removed", ("carol",)), "alice", NotFound),  # she is gone already
        (MemberChange("added", ("carol",)), "bob", Forbidden),  # he was an admin when he asked
        (MemberChange("role", ("bob",), "admin"), "bob", Forbidden),
        (MemberChange("removed", ("bob",)), "zoe", NotFound),  # she was removed meanwhile
    ],
)
def test_a_change_that_may_not_be_done_any_more_is_refused(
    change: MemberChange, sender_id: str, problem: type[Problem]
) -> None:
    group = member_change(change, {"alice": "owner", "bob": "member"}, sender_id)
    check_change(group, 1_000)
    assert isinstance(group.refused[0].problem, problem)
    assert group.voids == [(5, 1_005)]
