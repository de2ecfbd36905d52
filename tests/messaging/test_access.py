"""Who may do what, and that a node's own member list is never believed when it is older than the truth."""

from __future__ import annotations

import asyncio
import itertools
from typing import get_args

import msgspec
import pytest

from tests.support.messaging.faulty_stores import After, FaultyNode, Gate, code_of, down, record_members
from tidings.errors import Forbidden, NotFound, Problem
from tidings.messaging import access
from tidings.messaging.access import MAY, Access, Action, MemberList, check
from tidings.model import Head, Member, MemberChange, Role
from tidings.stores.keyspace.call import plain
from tidings.tasks import Listeners

ROLES: tuple[Role, ...] = get_args(Role)
ACTIONS: tuple[Action, ...] = get_args(Action)


def member_list(kind: str = "group", *, role: Role = "member", floor_seq: int = 0, joined_seq: int = 0) -> MemberList:
    head = Head(
        conversation_id="c",
        kind=kind,  # type: ignore[arg-type]
        created_ms=1,
        history="joined" if kind == "group" else "all",
        floor_seq=floor_seq,
    )
    return MemberList(head, {"u": Member(conversation_id="c", user_id="u", role=role, joined_seq=joined_seq)}, 0)


# --- the rule ---------------------------------------------------------------------------------------

# Written out by hand: what the table in access.py must say.
EXPECTED: dict[Role, set[Action]] = {
    "owner": {"read", "write", "moderate", "rename", "add", "remove", "role", "delete"},
    "admin": {"read", "write", "moderate", "rename", "add", "remove"},
    "member": {"read", "write"},
}


@pytest.mark.parametrize(("role", "action"), list(itertools.product(ROLES, ACTIONS)))
@pytest.mark.parametrize("kind", ["group", "channel"])
def test_each_role_may_do_exactly_its_actions(kind: str, role: Role, action: Action) -> None:
    assert (role in MAY[action]) == (action in EXPECTED[role])
    if action in EXPECTED[role]:
        assert check(member_list(kind, role=role), "u", action).role == role
    else:
        with pytest.raises(Forbidden):
            check(member_list(kind, role=role), "u", action)


@pytest.mark.parametrize(("role", "action"), list(itertools.product(ROLES, ACTIONS)))
def test_in_a_direct_conversation_there_is_only_reading_and_writing(role: Role, action: Action) -> None:
    if action in ("read", "write"):
        check(member_list("direct", role=role), "u", action)
    else:
        with pytest.raises(Forbidden):
            check(member_list("direct", role=role), "u", action)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_stranger_hears_the_same_as_for_a_conversation_that_is_not_there(action: Action) -> None:
    said = []
    for there in (member_list(), None):
        with pytest.raises(Problem) as refusal:
            check(there, "stranger", action)
        said.append((type(refusal.value), str(refusal.value), refusal.value.retry_after_ms))
    assert said[0] == said[1] and said[0][0] is NotFound


@pytest.mark.parametrize(
    ("kind", "joined_seq", "floor_seq", "after"), [("group", 7, 0, 7), ("channel", 7, 0, 0), ("group", 7, 9, 9)]
)
def test_a_member_sees_what_came_after_joining_and_is_still_kept(
    kind: str, joined_seq: int, floor_seq: int, after: int
) -> None:
    assert member_list(kind, joined_seq=joined_seq, floor_seq=floor_seq).visible_after("u") == after


# --- the list ---------------------------------------------------------------------------------------


async def test_who_was_removed_on_one_node_is_refused_on_the_other_at_once(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    for node in (a, b):
        await node.core.access.authorize("bob", group, "read")
    await a.core.directory.remove("alice", group, "bob")
    for node in (a, b):
        with pytest.raises(NotFound):
            await node.core.access.authorize("bob", group, "read")
    await b.core.directory.add("alice", group, ["bob"])
    assert (await a.core.access.authorize("bob", group, "read")).members["bob"].joined_seq == 2


async def test_a_new_role_counts_on_the_other_node_at_once(a: FaultyNode, b: FaultyNode, group: str) -> None:
    with pytest.raises(Forbidden):
        await b.core.access.authorize("bob", group, "rename")
    await a.core.directory.set_role("alice", group, "bob", "admin")
    await b.core.access.authorize("bob", group, "rename")


async def test_a_deleted_conversation_is_gone_on_the_other_node_at_once(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.core.access.authorize("bob", group, "read")
    await a.core.directory.delete("alice", group)
    with pytest.raises(NotFound):
        await b.core.access.authorize("bob", group, "read")
    assert b.core.access.cached(group) is None


async def test_without_the_keyspace_the_tables_say_who_is_a_member(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await b.core.access.authorize("bob", group, "read")
    await a.core.directory.remove("alice", group, "bob")
    b.keyspace.fail("HMGET", down, down)
    with pytest.raises(NotFound):
        await b.core.access.authorize("bob", group, "read")
    await b.core.access.authorize("carol", group, "read")


async def test_a_counter_that_was_lost_or_is_of_another_life_is_not_believed(a: FaultyNode, group: str) -> None:
    await a.core.access.authorize("bob", group, "read")
    await a.core.directory.remove("alice", group, "bob")
    a.core.access.forget([group])
    stale = MemberList(*_with(await a.core.access.load(group), "bob"))
    key = a.core.keys.conv(group)
    for command in (("DEL", key), ("HSET", key, "epoch", "another", "members_seq", 0, "seq", 1)):
        a.core.access._member_lists.put(group, stale, 1)
        await a.command(*command)
        with pytest.raises(NotFound):
            await a.core.access.authorize("bob", group, "read")


def _with(member_list: MemberList | None, user_id: str) -> tuple[Head, dict[str, Member], int]:
    """The list as it was before somebody was removed."""
    assert member_list is not None
    gone = Member(conversation_id=member_list.head.conversation_id, user_id=user_id)
    return member_list.head, {**member_list.members, user_id: gone}, 0


async def test_a_known_member_costs_one_keyspace_trip_and_no_table_read(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")  # the counter exists from here on
    await a.core.access.authorize("bob", group, "read")
    a.keyspace.runs.clear()
    before = a.core.metrics.rows_read["members"].value
    look = plain("x", b"PING")
    admitted = await a.core.access.authorize_beside("bob", group, "read", look)
    assert a.keyspace.runs == [["HMGET", "PING"]]
    assert (admitted.top, admitted.beside) == (1, [b"PONG"])
    assert a.core.metrics.rows_read["members"].value == before


async def test_beside_is_none_when_the_keyspace_does_not_answer(a: FaultyNode, group: str) -> None:
    a.keyspace.fail("PING", down)
    admitted = await a.core.access.authorize_beside("bob", group, "read", plain("x", b"PING"))
    assert (admitted.top, admitted.beside) == (0, None)


async def test_lists_are_kept_by_the_number_of_their_members_and_those_used_least_recently_go(
    a: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.messaging.access.MEMBERS_CACHED_MAX", 40)
    of_lists = a.core.tables.conversations, a.core.tables.log, a.core.tables.records
    access = Access(*of_lists, a.core.keyspace, a.core.keys, a.clock, Listeners())
    ids = []
    for kind, others in (("direct", ["bob"]), ("direct", ["carol"]), ("group", [f"u{i}" for i in range(20)])):
        view, _ = await a.core.directory.create("alice", kind=kind, members=others)  # type: ignore[arg-type]
        ids.append(view.head.conversation_id)
        await access.load(ids[-1])
    assert [access.cached(id_) is not None for id_ in (ids[2], ids[1], ids[0])] == [True] * 3  # the group is oldest now
    view, _ = await a.core.directory.create("alice", kind="group", members=[f"v{i}" for i in range(8)])
    await access.load(view.head.conversation_id)
    assert [access.cached(id_) is not None for id_ in ids] == [True, True, False]
    assert access.cached(view.head.conversation_id) is not None


async def test_a_number_of_a_member_change_that_was_refused_makes_no_later_read_read_the_members(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("alice", group, "m1")
    gate = Gate()
    b.keyspace.fail("conversation_number", gate)  # b has authorized with the list of before
    late = asyncio.ensure_future(b.core.sends.change_members("alice", group, MemberChange("added", ("dave",))))
    await gate.reached.wait()
    await a.core.directory.add("alice", group, ["dave"])
    gate.opened.set()
    with pytest.raises(NotFound, match="no such member"):
        await late
    key = a.core.keys.conv(group)
    stored = (await a.tables.conversations.heads([group]))[group].members_seq
    unused = int(await a.command("HGET", key, "members_seq"))
    assert unused > stored
    while all(entry.seq_no != unused for entry in await a.log(group)):
        await asyncio.sleep(0)  # b is closing the number that it gave up: until then the change may still come
    for node in (a, b):
        before = -1.0
        async with asyncio.timeout(60):  # what the node itself still does for the change may read them once more
            while node.core.metrics.rows_read["members"].value != before:
                before = node.core.metrics.rows_read["members"].value
                for _ in range(20):
                    await node.core.access.authorize("bob", group, "read")


async def test_an_unused_number_of_a_member_change_makes_no_list_new_that_lacks_the_changes_below_it(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    """A batch keeps the list that it began with, while a reader finds that the newest change came to nothing."""
    await a.send("carol", group, "m1")
    gate = Gate()
    a.keyspace.fail("conversation_number", gate)
    late = a.submit("carol", group, "late")
    await gate.reached.wait()
    await b.core.directory.remove("alice", group, "carol")
    unused = (await b.log(group))[-1].seq_no + 1
    await b.core.log.close(group, unused, unused)
    await a.command("HSET", a.core.keys.conv(group), "seq", unused, "members_seq", unused)
    await a.core.access.authorize("alice", group, "read")
    gate.opened.set()
    assert code_of(await late) == "not_found"


async def test_a_stranger_is_refused_after_the_same_reads_whether_the_conversation_exists_or_not(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")  # the node has the list in memory, and the keyspace its counter
    reads = record_members(a)
    for conversation_id in (group, "c-none"):
        a.keyspace.runs.clear()
        reads.clear()
        with pytest.raises(NotFound, match="no such conversation"):
            await a.core.access.authorize("zoe", conversation_id, "read")
        assert (a.keyspace.runs, reads) == ([["HMGET"]], ["heads"])


async def test_a_long_list_is_brought_up_to_date_by_its_changes(
    a: FaultyNode, b: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_LONG_LIST", 2)
    await b.core.access.load(group)
    await a.core.directory.add("alice", group, ["dave", "erin"])
    await a.core.directory.remove("alice", group, "bob")
    await a.core.directory.set_role("alice", group, "carol", "admin")
    await a.core.directory.add("alice", group, ["bob"])
    read = record_members(b)
    found = await b.core.access.fresh(group)
    whole = {member.user_id: member for member in await a.tables.conversations.members(group)}
    assert found is not None and found.members == whole and set(whole) == {"alice", "bob", "carol", "dave", "erin"}
    assert "named" in read and "members" not in read


async def test_a_long_list_with_too_many_changes_is_read_as_a_whole(
    a: FaultyNode, b: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_LONG_LIST", 2)
    monkeypatch.setattr(access, "_CHANGES_MAX", 1)
    await b.core.access.load(group)
    await a.core.directory.add("alice", group, ["dave"])
    await a.core.directory.remove("alice", group, "bob")
    found = await b.core.access.fresh(group)
    assert found is not None and set(found.members) == {"alice", "carol", "dave"}


async def test_of_two_loads_that_cross_the_newer_list_stays(
    a: FaultyNode, b: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, members = After(), b.tables.conversations.members
    with monkeypatch.context() as patch:
        patch.setattr(b.core.access._conversations, "members", lambda id_: gate(lambda: members(id_)))
        early = asyncio.ensure_future(b.core.access.load(group))
        await gate.reached.wait()
    await a.core.directory.remove("alice", group, "bob")
    newer = await b.core.access.load(group)
    gate.opened.set()
    overtaken = await early
    assert newer is not None and set(newer.members) == {"alice", "carol"}
    assert overtaken == newer and b.core.access.cached(group) == newer


async def test_a_conversation_that_was_made_anew_has_its_own_list(a: FaultyNode, b: FaultyNode, group: str) -> None:
    known = await b.core.access.load(group)
    assert known is not None
    older_life = msgspec.structs.replace(known.head, created_ms=known.head.created_ms - 1)
    b.core.access._member_lists.put(group, MemberList(older_life, {}, 99), 1)
    assert await b.core.access.load(group) == known == b.core.access.cached(group)
