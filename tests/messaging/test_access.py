"""Who may do what, and that a node's own member list is never believed when it is older than the truth."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from tests.messaging.faulty import FaultyNode, down
from tidings.errors import Forbidden, NotFound, Problem
from tidings.messaging.access import MAY, Access, Action, Roster, check
from tidings.model import Head, Member, Role
from tidings.stores.calls import plain

ROLES: tuple[Role, ...] = get_args(Role)
ACTIONS: tuple[Action, ...] = get_args(Action)


def roster(kind: str = "group", *, role: Role = "member", floor_seq: int = 0, joined_seq: int = 0) -> Roster:
    head = Head(
        conversation_id="c",
        kind=kind,  # type: ignore[arg-type]
        created_ms=1,
        history="joined" if kind == "group" else "all",
        floor_seq=floor_seq,
    )
    return Roster(head, {"u": Member(conversation_id="c", user_id="u", role=role, joined_seq=joined_seq)}, 0)


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
        assert check(roster(kind, role=role), "u", action).role == role
    else:
        with pytest.raises(Forbidden):
            check(roster(kind, role=role), "u", action)


@pytest.mark.parametrize(("role", "action"), list(itertools.product(ROLES, ACTIONS)))
def test_in_a_direct_conversation_there_is_only_reading_and_writing(role: Role, action: Action) -> None:
    if action in ("read", "write"):
        check(roster("direct", role=role), "u", action)
    else:
        with pytest.raises(Forbidden):
            check(roster("direct", role=role), "u", action)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_stranger_hears_the_same_as_for_a_conversation_that_is_not_there(action: Action) -> None:
    said = []
    for there in (roster(), None):
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
    assert roster(kind, joined_seq=joined_seq, floor_seq=floor_seq).visible_after("u") == after


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
    stale = Roster(*_with(await a.core.access.load(group), "bob"))
    key = a.core.keys.conv(group)
    for command in (("DEL", key), ("HSET", key, "epoch", "another", "members_seq", 0, "seq", 1)):
        a.core.access._rosters[group] = stale
        await a.command(*command)
        with pytest.raises(NotFound):
            await a.core.access.authorize("bob", group, "read")


def _with(roster: Roster | None, user_id: str) -> tuple[Head, dict[str, Member], int]:
    """The list as it was before somebody was removed."""
    assert roster is not None
    gone = Member(conversation_id=roster.head.conversation_id, user_id=user_id)
    return roster.head, {**roster.members, user_id: gone}, 0


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


async def test_the_oldest_lists_are_forgotten_when_there_are_too_many(
    a: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.messaging.access.CONVERSATIONS_CACHED_MAX", 2)
    access: Access = a.core.access
    ids = []
    for other in ("bob", "carol", "dave"):
        view, _ = await a.core.directory.create("alice", kind="direct", members=[other])
        ids.append(view.head.conversation_id)
        await access.load(ids[-1])
    assert [access.cached(id_) is not None for id_ in ids] == [False, True, True]
    await access.load(ids[2])
    assert access.cached(ids[1]) is not None
