"""Conversations and their members: made once, seen by the right people, changed by those who may."""

from __future__ import annotations

import asyncio
import dataclasses
from functools import partial
from typing import Any, TypeVar

import pytest

from tests.messaging.unread.test_unread import fail_once, let_the_marker_expire
from tests.support.messaging.faulty_stores import Device, Fault, FaultyNode, down, open_faulty, request_lost, throttled
from tests.support.messaging.two_nodes import connect, telling
from tests.support.messaging.warm_index_checks import check_warm
from tests.support.waiting import eventually
from tidings.bounds import MEMBER_CHANGE_USERS_MAX, MEMBERS_NAMED_MAX, PROFILES_MAX
from tidings.config.settings import Settings
from tidings.errors import BadRequest, Forbidden, IdConflict, NotFound, Problem, StoreError, TooLarge, Unavailable
from tidings.messaging.conversations import directory as conversations
from tidings.messaging.conversations.direct_ids import direct_id, unkeyed_direct_id
from tidings.messaging.conversations.directory import Directory
from tidings.model import Head, InboxItem, Member, Row, Totals, User
from tidings.pushes import ConversationAdded, ConversationRemoved, ConversationUpdated


async def inbox(node: FaultyNode, user_id: str) -> list[str]:
    page = await node.core.inbox.page(user_id, limit=100, cursor=None)
    assert not page.is_stale
    return [item.row.conversation_id for item in page.items]


async def line(node: FaultyNode, user_id: str, conversation_id: str) -> InboxItem:
    return await node.core.inbox.item(user_id, conversation_id)


Kind = TypeVar("Kind")


async def announced(node: FaultyNode) -> None:
    """Everybody who is connected was told."""
    await eventually(lambda: not len(node.core.directory.announcements._tasks))


def of_kind(device: Device, kind: type[Kind]) -> list[Kind]:
    return [event for event in device.events if isinstance(event, kind)]


# --- direct -----------------------------------------------------------------------------------------


async def test_a_pair_has_one_conversation_from_both_sides(a: FaultyNode, b: FaultyNode) -> None:
    first, is_first_new = await a.core.directory.create("alice", kind="direct", members=["bob"])
    second, is_second_new = await b.core.directory.create("bob", kind="direct", members=["alice"])
    third, is_third_new = await a.core.directory.create("alice", kind="direct", members=["bob", "alice", "bob"])
    assert (is_first_new, is_second_new, is_third_new) == (True, False, False)
    secret = a.tables.accounts.secret
    assert {view.head.conversation_id for view in (first, second, third)} == {direct_id("alice", "bob", secret)}
    assert [member.user_id for member in second.members] == ["alice", "bob"]


async def test_nobody_outside_computes_the_id_of_a_pair(a: FaultyNode) -> None:
    view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
    assert view.head.conversation_id != unkeyed_direct_id("alice", "bob")
    assert view.head.conversation_id != direct_id("alice", "bob", "another secret")


async def test_a_pair_keeps_the_conversation_it_had_before_ids_were_keyed(a: FaultyNode, b: FaultyNode) -> None:
    older = unkeyed_direct_id("alice", "bob")
    people = [Member(conversation_id=older, user_id=user_id) for user_id in ("alice", "bob")]
    rows = [Row(user_id=user_id, conversation_id=older, kind="direct") for user_id in ("alice", "bob")]
    await a.tables.conversations.create(Head(conversation_id=older, kind="direct", created_ms=1), people, rows)
    for node, user_id, other_id in ((a, "alice", "bob"), (b, "bob", "alice")):
        view, is_new = await node.core.directory.create(user_id, kind="direct", members=[other_id])
        assert (view.head.conversation_id, is_new) == (older, False)


async def test_made_by_both_at_once_it_is_made_once(a: FaultyNode, b: FaultyNode) -> None:
    asked = [
        node.core.directory.create(user_id, kind="direct", members=[other])
        for node in (a, b)
        for user_id, other in (("alice", "bob"), ("bob", "alice")) * 5
    ]
    answers = await asyncio.gather(*asked)
    assert len({view.head.conversation_id for view, _ in answers}) == 1
    assert sum(is_new for _, is_new in answers) == 1
    assert await a.wrong() == []


async def test_it_is_hidden_from_the_other_until_the_first_message(a: FaultyNode) -> None:
    await inbox(a, "bob")
    view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
    id_ = view.head.conversation_id
    assert (await inbox(a, "alice"), await inbox(a, "bob")) == ([id_], [])
    assert view.head.head == 0  # no entry is written
    await a.send("alice", id_, "m1")
    assert await inbox(a, "bob") == [id_]
    assert await a.unread("bob") == 1


async def test_a_message_that_overtakes_the_making_is_counted(a: FaultyNode, b: FaultyNode) -> None:
    for user_id in ("alice", "bob"):
        await a.unread(user_id)
    a.keyspace.fail("inbox_join", down)  # committed, but not yet in alice's inbox
    view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
    id_ = view.head.conversation_id
    await b.send("bob", id_, "m1")
    join = a.core.directory.scripts.inbox_join("alice", id_, score_ms=1, version=0, cursor=0)
    await a.keyspace.one(join)  # now it comes
    assert await b.unread("alice") == 1
    assert await check_warm(a.core, "alice")


async def test_it_carries_the_name_of_the_other(a: FaultyNode) -> None:
    await a.core.tables.accounts.put_user(User(user_id="bob", name="Bob B.", avatar_url="https://example.com/b.png"))
    view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
    id_ = view.head.conversation_id
    await a.send("alice", id_, "m1")
    hers, his = (await line(a, "alice", id_)).row, (await line(a, "bob", id_)).row
    assert (hers.name, hers.avatar_url, his.name) == ("Bob B.", "https://example.com/b.png", "alice")


@pytest.mark.parametrize("members", [[], ["alice"], ["bob", "carol"], ["b{b}"], ["a b"], [""], ["x" * 129]])
async def test_a_direct_conversation_needs_one_other_with_a_proper_id(a: FaultyNode, members: list[str]) -> None:
    with pytest.raises(BadRequest):
        await a.core.directory.create("alice", kind="direct", members=members)


# --- group and channel --------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "history"), [("group", "joined"), ("channel", "all")])
async def test_a_shared_one_is_in_every_members_inbox_at_once(a: FaultyNode, kind: Any, history: str) -> None:
    for user_id in ("alice", "bob", "carol"):
        await inbox(a, user_id)
    view, is_new = await a.core.directory.create("alice", kind=kind, members=["bob", "carol", "bob"], name="N")
    assert is_new and view.head.history == history
    assert {member.user_id: member.role for member in view.members} == {
        "alice": "owner",
        "bob": "member",
        "carol": "member",
    }
    for user_id in ("alice", "bob", "carol"):
        assert await inbox(a, user_id) == [view.head.conversation_id]
    assert await a.wrong() == []


async def test_who_is_connected_is_told_with_the_makers_own_devices(a: FaultyNode) -> None:
    bob, alice = Device("bob", "1"), Device("alice", "2")
    a.core.hub.attach(bob)
    a.core.hub.attach(alice)
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob"], name="N")
    await announced(a)
    for device in (alice, bob):
        (added,) = of_kind(device, ConversationAdded)
        assert isinstance(added, ConversationAdded)
        assert (added.item.row.conversation_id, added.item.row.name) == (view.head.conversation_id, "N")


async def test_with_the_keyspace_down_nothing_is_made(a: FaultyNode) -> None:
    a.keyspace.fail("unread_put", down)
    with pytest.raises(Unavailable):
        await a.core.directory.create("alice", kind="direct", members=["bob"])
    made = direct_id("alice", "bob", a.tables.accounts.secret)
    assert await a.core.tables.conversations.heads([made]) == {}


async def test_a_node_that_dies_after_the_commit_leaves_nobody_without_the_conversation(
    a: FaultyNode, b: FaultyNode
) -> None:
    for user_id in ("alice", "bob"):
        await a.unread(user_id)
    a.keyspace.fail("inbox_join", request_lost)
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob"])
    for user_id in ("alice", "bob"):
        await let_the_marker_expire(b, user_id)
        assert await inbox(b, user_id) == [view.head.conversation_id]
    assert await b.wrong() == []


async def test_members_above_the_limit_are_too_many(settings: Settings) -> None:
    async with open_faulty(dataclasses.replace(settings, members_max=4), "a") as a:
        create = a.core.directory.create
        with pytest.raises(TooLarge):
            await create("alice", kind="group", members=["b", "c", "d", "e"])
        view, _ = await create("alice", kind="group", members=["b", "c"])
        id_ = view.head.conversation_id
        with pytest.raises(TooLarge):
            await a.core.directory.add("alice", id_, ["d", "e"])
        view = await a.core.directory.add("alice", id_, ["b", "d", "d"])
        assert len(view.members) == 4 and view.head.head == 1


# --- who may ------------------------------------------------------------------------------------------


async def deeds(directory: Directory, user_id: str, id_: str) -> dict[str, Any]:
    return {
        "rename": lambda: directory.rename(user_id, id_, name="other"),
        "add": lambda: directory.add(user_id, id_, ["zoe"]),
        "remove": lambda: directory.remove(user_id, id_, "carol"),
        "role": lambda: directory.set_role(user_id, id_, "carol", "admin"),
        "delete": lambda: directory.delete(user_id, id_),
        "view": lambda: directory.view(user_id, id_),
    }


@pytest.mark.parametrize(
    ("user_id", "allowed"),
    [
        ("alice", {"view", "rename", "add", "remove", "role", "delete"}),
        ("bob", {"view", "rename", "add", "remove"}),
        ("dave", {"view"}),
        ("eve", set()),
    ],
)
@pytest.mark.parametrize("deed", ["view", "rename", "add", "remove", "role", "delete"])
async def test_each_may_do_what_the_role_allows(a: FaultyNode, user_id: str, allowed: set[str], deed: str) -> None:
    """alice owns it, bob is an admin, carol and dave are members, eve is nobody."""
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob", "carol", "dave"])
    id_ = view.head.conversation_id
    await a.core.directory.set_role("alice", id_, "bob", "admin")
    act = (await deeds(a.core.directory, user_id, id_))[deed]
    if deed in allowed:
        await act()
        return
    with pytest.raises(NotFound if user_id == "eve" else Forbidden) as refusal:
        await act()
    if user_id == "eve":
        with pytest.raises(NotFound) as missing:
            await (await deeds(a.core.directory, user_id, "c-none"))[deed]()
        assert str(refusal.value) == str(missing.value)


@pytest.mark.parametrize("deed", ["rename", "add", "remove", "role", "delete"])
async def test_nobody_changes_a_direct_conversation(a: FaultyNode, direct: str, deed: str) -> None:
    with pytest.raises(Forbidden):
        await (await deeds(a.core.directory, "alice", direct))[deed]()


async def test_a_new_profile_is_seen_in_every_direct_conversation_and_told(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "_TOGETHER", 2)
    others = [f"friend{i}" for i in range(5)]
    made = {other: (await a.core.directory.create("bob", kind="direct", members=[other]))[0] for other in others}
    seen, unseen = made["friend0"].head.conversation_id, made["friend1"].head.conversation_id
    await a.send("bob", seen, "m1")
    devices = [Device(other, other) for other in others]
    for device in devices:
        a.core.hub.attach(device)
    await a.core.directory.introduce(User(user_id="bob", name="Bo", avatar_url="https://example.com/bo.png"))
    for other, view in made.items():
        row = (await line(a, other, view.head.conversation_id)).row
        assert (row.name, row.avatar_url) == ("Bo", "https://example.com/bo.png")
    assert (await line(a, "bob", seen)).row.name == "friend0" and (await line(a, "alice", group)).row.name == "three"
    told = {device.user_id: of_kind(device, ConversationUpdated) for device in devices}
    assert [event.item.row.name for event in told["friend0"]] == ["Bo"]
    assert told["friend1"] == [] and (await line(a, "friend1", unseen)).row.is_hidden  # nothing was said there yet
    await a.core.directory.introduce(User(user_id="bob"))
    assert (await line(a, "friend0", seen)).row.name == "bob"


async def test_a_profile_that_was_put_half_is_finished_by_putting_it_again(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(rows: object, **label: object) -> None:
        raise Unavailable("down")

    with monkeypatch.context() as broken, pytest.raises(Unavailable):
        broken.setattr(a.tables.inboxes, "label", fail, raising=False)
        await a.core.directory.introduce(User(user_id="bob", name="Bo"))
    await a.core.directory.introduce(User(user_id="bob", name="Bo"))
    assert (await line(a, "alice", direct)).row.name == "Bo"


async def test_members_see_each_others_profiles_and_nobody_elses(a: FaultyNode, group: str) -> None:
    await a.core.directory.introduce(User(user_id="bob", name="Bo", avatar_url="https://example.com/bo.png"))
    await a.core.directory.introduce(User(user_id="dave", name="Dave"))
    ask = partial(a.core.directory.profiles, "alice", group)
    assert [one.name for one in await ask(["carol", "dave", "bob", "bob"])] == [None, "Bo"]
    assert [one.user_id for one in await ask([])] == ["alice", "bob", "carol"]
    assert await ask(["dave"]) == [], "not everybody, when nobody of those named is a member"
    with pytest.raises(NotFound):
        await a.core.directory.profiles("dave", group, ["bob"])
    await a.core.directory.remove("alice", group, "bob")
    assert await ask(["bob"]) == []
    with pytest.raises(TooLarge):
        await ask([f"user-{number}" for number in range(PROFILES_MAX + 1)])


# --- changes --------------------------------------------------------------------------------------------


async def test_renaming_keeps_what_is_not_given(a: FaultyNode, group: str) -> None:
    await a.core.directory.rename("alice", group, name="first", avatar_url="https://example.com/a.png")
    view = await a.core.directory.rename("alice", group, name="second")
    assert (view.head.name, view.head.avatar_url) == ("second", "https://example.com/a.png")
    view = await a.core.directory.rename("alice", group, avatar_url=None)
    assert (view.head.name, view.head.avatar_url) == ("second", None)
    assert (await line(a, "bob", group)).row.name == "second"


async def test_a_new_name_is_told_to_who_is_connected(a: FaultyNode, group: str) -> None:
    bob = Device("bob", "1")
    a.core.hub.attach(bob)
    await a.core.directory.rename("alice", group, name="new")
    await announced(a)
    (event,) = of_kind(bob, ConversationUpdated)
    assert isinstance(event, ConversationUpdated) and event.item.row.name == "new"


async def test_who_is_added_on_another_node_gets_the_new_name(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await b.core.access.load(group)
    await a.core.directory.rename("alice", group, name="new")
    await b.core.directory.add("alice", group, ["dave"])
    assert (await line(b, "dave", group)).row.name == "new"


async def test_many_are_added_in_several_entries(a: FaultyNode, group: str) -> None:
    users = [f"u{number:03d}" for number in range(2 * MEMBER_CHANGE_USERS_MAX + 1)]
    view = await a.core.directory.add("alice", group, users)
    entries = await a.log(group)
    assert [len(entry.member.user_ids) for entry in entries if entry.member] == [45, 45, 1]
    assert len(view.members) == 3 + len(users)
    assert await inbox(a, "u090") == [group]


async def test_members_are_read_in_pages_and_a_user_names_a_thousand_at_most(a: FaultyNode, group: str) -> None:
    await a.core.directory.add("alice", group, ["dave", "erin"])
    page = await a.core.directory.members("alice", group, after_id="bob", limit=2)
    assert [one.user_id for one in page] == ["carol", "dave"]
    with pytest.raises(NotFound):
        await a.core.directory.members("nobody", group, after_id="", limit=2)
    with pytest.raises(TooLarge):
        await a.core.directory.add("alice", group, [f"more{n}" for n in range(MEMBERS_NAMED_MAX + 1)])


async def test_a_long_member_list_is_shown_by_its_beginning(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "MEMBERS_SHOWN_MAX", 2)
    view = await a.core.directory.view("carol", group)
    assert [one.user_id for one in view.members] == ["alice", "bob"]
    assert (view.members_count, view.role) == (3, "member")


async def test_adding_who_is_there_already_writes_nothing(a: FaultyNode, group: str) -> None:
    view = await a.core.directory.add("alice", group, ["bob", "carol"])
    assert view.head.head == 0


async def test_the_same_users_added_from_two_nodes_at_once_join_once(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await asyncio.gather(*(node.core.directory.add("alice", group, ["dave", "erin"]) for node in (a, b)))
    joined = [user_id for entry in await a.log(group) if entry.member for user_id in entry.member.user_ids]
    assert sorted(joined) == ["dave", "erin"]
    assert await a.wrong() == []


async def test_who_leaves_loses_the_conversation_and_its_count(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    assert await a.unread("bob") == 1
    bob = Device("bob", "1")
    a.core.hub.attach(bob)
    await a.core.directory.remove("bob", group, "bob")
    assert (await inbox(a, "bob"), await a.unread("bob")) == ([], 0)
    assert of_kind(bob, ConversationRemoved) == [ConversationRemoved(group)]
    (entry,) = [entry for entry in await a.log(group) if entry.member]
    assert entry.member is not None
    assert (entry.member.action, entry.member.user_ids, entry.sender_id) == ("left", ("bob",), "bob")


async def test_who_comes_back_begins_with_nothing_unread(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.core.directory.remove("alice", group, "bob")
    await a.send("alice", group, "m2")
    await a.core.directory.add("alice", group, ["bob"])
    assert await a.unread("bob") == 0
    await a.send("alice", group, "m3")
    state = await a.core.unread.state("bob", group)
    assert (state.unread_count, state.first_unread_seq, state.read_seq) == (1, 5, 4)
    assert await a.wrong() == []


async def test_an_owner_cannot_be_removed_and_one_always_stays(a: FaultyNode, group: str) -> None:
    directory = a.core.directory
    await directory.set_role("alice", group, "bob", "admin")
    with pytest.raises(Forbidden):
        await directory.remove("bob", group, "alice")
    with pytest.raises(Forbidden):
        await directory.set_role("alice", group, "alice", "member")
    await directory.set_role("alice", group, "carol", "owner")
    await directory.set_role("alice", group, "alice", "member")
    view = await directory.view("carol", group)
    assert {member.user_id: member.role for member in view.members}["carol"] == "owner"


async def test_when_the_only_owner_leaves_another_becomes_it(a: FaultyNode, group: str) -> None:
    directory = a.core.directory
    await directory.set_role("alice", group, "carol", "admin")
    await directory.remove("alice", group, "alice")
    assert {m.user_id: m.role for m in (await directory.view("bob", group)).members} == {
        "bob": "member",
        "carol": "owner",
    }
    await directory.remove("carol", group, "carol")
    assert [m.role for m in (await directory.view("bob", group)).members] == ["owner"]
    await directory.remove("bob", group, "bob")
    with pytest.raises(NotFound):
        await directory.view("bob", group)


@pytest.mark.parametrize("deed", ["remove", "set_role"])
async def test_somebody_who_is_not_there_cannot_be_changed(a: FaultyNode, group: str, deed: str) -> None:
    with pytest.raises(NotFound):
        await getattr(a.core.directory, deed)("alice", group, "zoe", *(["admin"] if deed == "set_role" else []))


# --- deleting -------------------------------------------------------------------------------------------


async def test_a_deleted_conversation_is_gone_for_everybody(a: FaultyNode, b: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await b.send("bob", group, "m2")
    bob = Device("bob", "1")
    a.core.hub.attach(bob)
    await a.core.directory.delete("alice", group)
    for node in (a, b):
        for user_id in ("alice", "bob", "carol"):
            assert await node.core.unread.totals(user_id) == Totals(0, 0)
            assert await inbox(node, user_id) == []
            with pytest.raises(NotFound):
                await node.core.directory.view(user_id, group)
            with pytest.raises(Problem):
                await node.send(user_id, group, "m3")
    assert of_kind(bob, ConversationRemoved) == [ConversationRemoved(group)]
    assert await a.log(group) == []
    assert await a.wrong() == []


async def test_a_node_that_dies_in_the_middle_of_a_delete_leaves_no_count_behind(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    assert await b.unread("bob") == 1
    a.keyspace.fail("inbox_leave", request_lost)
    with pytest.raises(Unavailable):
        await a.core.directory.delete("alice", group)
    await let_the_marker_expire(b, "bob")
    assert await b.core.unread.totals("bob") == Totals(0, 0)
    assert await inbox(b, "bob") == []


# --- rows in the tables ---------------------------------------------------------------------------------


async def test_each_member_has_one_row_and_one_seat(a: FaultyNode, group: str) -> None:
    await a.core.directory.add("alice", group, ["dave"])
    await a.core.directory.remove("alice", group, "bob")
    await a.core.directory.remove("dave", group, "dave")
    await a.core.directory.add("alice", group, ["dave"])
    await a.core.directory.accept("dave", group)
    present = [member.user_id for member in await a.core.tables.conversations.members(group)]
    assert present == ["alice", "carol", "dave"]
    for user_id in ("alice", "bob", "carol", "dave"):
        rows = await a.core.tables.inboxes.scan(user_id, after_id="", limit=10)
        assert [row.conversation_id for row in rows] == ([group] if user_id in present else [])


# --- many members, and creates that are repeated ------------------------------------------------------


async def test_a_create_and_a_rename_of_many_cost_few_round_trips_and_rebuild_nobody(
    a: FaultyNode, b: FaultyNode
) -> None:
    async with telling(a, b):
        others = [f"u{n}" for n in range(300)]
        here, there = await connect(a, "u7"), await connect(b, "u8")
        await a.unread("u7")
        await b.unread("u8")
        runs, rebuilds = len(a.keyspace.runs), a.core.metrics.rebuilds["inbox"].value
        view, _ = await a.core.directory.create("alice", kind="channel", members=others, name="all")
        channel = view.head.conversation_id
        assert len(a.keyspace.runs) - runs <= 25, "slices of many members each, and nobody is waited for"
        await eventually(lambda: all(of_kind(device, ConversationAdded) for device in (here, there)))
        runs = len(a.keyspace.runs)
        await a.core.directory.rename("alice", channel, name="everybody")
        assert len(a.keyspace.runs) - runs <= 25, "an entry of the log, and slices of many members each"
        await eventually(lambda: all(of_kind(device, ConversationUpdated) for device in (here, there)))
        await announced(a)
        assert len(a.keyspace.runs) - runs <= 40 and a.core.metrics.rebuilds["inbox"].value == rebuilds


async def test_few_conversations_are_committed_at_the_same_time(a: FaultyNode, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, most, real = 0, 0, a.tables.conversations.create

    async def create(*parts: Any) -> bool:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        try:
            return await real(*parts)
        finally:
            under_way -= 1

    monkeypatch.setattr(a.tables.conversations, "create", create)
    made = [a.core.directory.create("alice", kind="group", members=["bob"], name=str(n)) for n in range(10)]
    assert len({view.head.conversation_id for view, _ in await asyncio.gather(*made)}) == 10
    assert most == 2 and await a.wrong() == []


async def test_a_create_that_is_repeated_makes_one_conversation(a: FaultyNode, b: FaultyNode) -> None:
    asked: dict[str, Any] = {"kind": "group", "members": ["bob"], "name": "trip", "client_id": "mine-1"}
    (one, is_new), (again, is_new_again) = [await node.core.directory.create("alice", **asked) for node in (a, b)]
    assert (is_new, is_new_again) == (True, False)
    assert one.head.conversation_id == again.head.conversation_id
    other, is_new = await a.core.directory.create("bob", **{**asked, "members": ["alice"]})
    assert is_new and other.head.conversation_id != one.head.conversation_id, "a client_id is its user's own"
    with pytest.raises(IdConflict):
        await a.core.directory.create("alice", **{**asked, "kind": "channel"})
    unnamed = [await a.core.directory.create("alice", kind="group", members=["bob"]) for _ in range(2)]
    assert unnamed[0][0].head.conversation_id != unnamed[1][0].head.conversation_id


async def test_a_create_after_a_delete_makes_another_conversation(a: FaultyNode, b: FaultyNode) -> None:
    """Nodes remember who was a member of the deleted one, and what went out there."""
    asked: dict[str, Any] = {"kind": "group", "name": "trip", "client_id": "mine-1"}
    ids, bob = list[str](), await connect(a, "bob")
    for others in (["bob", "carol"], ["bob"], ["bob"]):
        (view, is_new), (_, is_new_again) = [
            await a.core.directory.create("alice", members=others, **asked) for _ in range(2)
        ]
        ids.append(view.head.conversation_id)
        assert (is_new, is_new_again) == (True, False)
        await a.send("alice", ids[-1], "m1")
        await eventually(lambda: bob.seqs() == [1])
        if "carol" not in others:
            assert await b.code("carol", ids[-1], "m2") == "not_found"
        else:
            await b.core.access.authorize("carol", ids[-1], "read")  # this node knows the members of the first one
            await a.core.directory.set_role("alice", ids[-1], "carol", "admin")
            await b.core.access.authorize("carol", ids[-1], "read")
        bob.events.clear()
        await a.core.directory.delete("alice", ids[-1])
    assert len(set(ids)) == 3


@pytest.mark.parametrize("fault", [throttled, down])
async def test_a_create_that_wrote_nothing_makes_nobody_cold(a: FaultyNode, fault: Fault) -> None:
    fail_once(a.tables.conversations, "create", fault)
    with pytest.raises(StoreError):
        await a.core.directory.create("alice", kind="group", members=["bob"])
    assert await a.command("HGET", a.core.keys.mark("bob"), ":put") is None
