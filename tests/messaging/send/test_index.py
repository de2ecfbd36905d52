"""Index: every member sees a batch, once, whatever happens to the keyspace or the member list meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, Gate, code_of, down
from tidings.errors import Unavailable
from tidings.model import Content, Entry
from tidings.stores.keyspace.scripts.answers import Indexed


async def index(node: FaultyNode, conversation_id: str, entries: list[Entry], since: int = 0) -> dict[str, Indexed]:
    member_list = await node.core.access.load(conversation_id)
    assert member_list is not None
    (answers,) = await node.core.index.index([(member_list, entries)], since=since)
    return answers


async def test_everybody_but_the_sender_is_counted(a: FaultyNode, group: str) -> None:
    await asyncio.gather(a.submit("alice", group, "m1"), a.submit("bob", group, "m2"))
    assert [await a.unread(user_id) for user_id in ("alice", "bob", "carol")] == [1, 1, 2]


async def test_indexing_again_changes_nothing(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.send("bob", group, "m2")
    for _ in range(3):
        answers = await index(a, group, await a.log(group))
    assert {user_id: answer.unread_count for user_id, answer in answers.items()} == {"alice": 1, "bob": 1, "carol": 2}
    assert await a.wrong() == []


async def test_what_was_read_is_not_revived_by_indexing_it_again(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    assert (await index(a, direct, await a.log(direct)))["bob"].unread_count == 0


async def test_a_deleted_message_leaves_the_count(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.send("alice", direct, "m2")
    await a.core.rewrites.delete("alice", direct, 1)
    assert await a.unread("bob") == 1
    assert (await index(a, direct, await a.log(direct)))["bob"].unread_count == 1


async def test_a_batch_that_saw_the_epoch_change_is_indexed_again_before_it_is_acknowledged(
    a: FaultyNode, direct: str
) -> None:
    changes = 0
    a.core.open_work.epoch_changes = lambda: changes  # type: ignore[method-assign]
    gate = Gate()
    a.keyspace.fail("inbox_index", gate)
    send = a.submit("alice", direct, "m1")
    await gate.reached.wait()
    changes = 1  # the keyspace began another life while the batch was on its way
    runs = len(a.keyspace.runs)
    gate.opened.set()
    assert code_of(await send) == "stored"
    assert a.keyspace.runs[runs:] == [["inbox_index"]]
    assert await a.unread("bob") == 1 and await a.wrong() == []


async def test_a_keyspace_that_begins_one_life_after_another_is_not_trusted(a: FaultyNode, direct: str) -> None:
    lives = iter(range(1, 100))
    a.core.open_work.epoch_changes = lambda: next(lives)  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        await index(a, direct, [])
    assert await a.code("alice", direct, "m1") == "unavailable"


async def test_a_cold_member_is_not_counted_but_rebuilt_by_who_looks(a: FaultyNode, direct: str) -> None:
    await a.command("DEL", a.core.keys.mark("bob"))
    await a.send("alice", direct, "m1")
    assert (await index(a, direct, await a.log(direct)))["bob"].is_user_cold
    assert await a.unread("bob") == 1 and await a.wrong() == []


async def test_a_batch_that_comes_after_somebody_left_shows_them_nothing(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    await b.send("carol", group, "m0")
    gate = Gate()
    b.keyspace.fail("inbox_index", gate)
    late = b.submit("carol", group, "m1")  # numbered and stored while bob was a member
    await gate.reached.wait()
    await a.core.directory.remove("alice", group, "bob")
    assert (await a.core.inbox.page("bob", limit=20, cursor=None)).items == []
    gate.opened.set()
    assert code_of(await late) == "stored"
    assert await a.wrong() == [], "before anybody looks: nothing is shown that would have to be taken away"
    assert (await a.core.inbox.page("bob", limit=20, cursor=None)).items == []
    assert await a.unread("bob") == 0


async def test_a_removal_that_is_indexed_after_a_later_join_takes_nothing_away(
    a: FaultyNode, b: FaultyNode, group: str
) -> None:
    assert await a.unread("bob") == 0  # warm
    gate = Gate()
    b.keyspace.fail("inbox_leave", gate)
    late = asyncio.ensure_future(b.core.directory.remove("alice", group, "bob"))
    await gate.reached.wait()
    await a.core.directory.add("alice", group, ["bob"], is_server=True)
    gate.opened.set()
    await late
    assert await a.wrong() == []
    (item,) = (await a.core.inbox.page("bob", limit=20, cursor=None)).items
    assert item.row.conversation_id == group


async def test_the_member_list_is_not_asked_for_where_it_cannot_change(a: FaultyNode, direct: str, group: str) -> None:
    a.keyspace.runs.clear()
    await a.send("alice", direct, "m1")
    assert "HMGET" not in a.keyspace.said
    await a.send("alice", group, "m1")
    assert a.keyspace.runs[-1][-2:] == ["inbox_index", "HMGET"]


async def test_a_mention_costs_the_calls_of_any_message_and_one_for_those_whom_it_names(a: FaultyNode) -> None:
    people = [f"user{at}" for at in range(60)]
    view, _ = await a.core.directory.create("alice", kind="group", members=people)
    id_ = view.head.conversation_id
    await a.send("alice", id_, "m0")
    costs = []
    for said in (Content("x"), Content("x", mention="all"), Content("x", mentions=tuple(people[:30]))):
        a.keyspace.runs.clear()
        await a.core.sends.send("alice", id_, None, said)
        costs.append((len(a.keyspace.runs), a.keyspace.said.count("inbox_index")))
    assert len({runs for runs, _ in costs}) == 1
    assert [calls for _, calls in costs] == [2, 2, 2]  # 61 members, 32 at most in a call
    assert {await a.unread(user_id) for user_id in people} == {4}


async def test_who_joins_begins_with_nothing_unread_and_who_leaves_keeps_nothing(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.unread("dave")
    await a.core.directory.add("alice", group, ["dave"])
    assert await a.unread("dave") == 0
    await a.send("alice", group, "m2")
    assert [await a.unread(user_id) for user_id in ("dave", "bob")] == [1, 2]
    await a.core.directory.remove("bob", group, "bob")
    await index(a, group, await a.log(group))  # the whole log again: the member list of now decides
    assert [await a.unread(user_id) for user_id in ("dave", "bob")] == [1, 0]
    assert await a.wrong() == []


async def test_a_message_that_another_node_deleted_before_it_was_indexed_is_not_counted(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    for node in (a, b, a):
        await node.core.registry.renew_node()  # they know each other
    gate = Gate()
    a.keyspace.fail("inbox_index", gate)
    sent = a.submit("alice", direct, "m1")
    await gate.reached.wait()  # stored, and not indexed yet
    await b.core.rewrites.delete("alice", direct, 1)
    gate.opened.set()
    assert code_of(await sent) == "stored"
    assert await a.unread("bob") == 0 and await a.wrong() == []


@pytest.mark.parametrize("is_seeded", [True, False])
async def test_a_message_deleted_before_it_was_indexed_is_not_counted_though_the_counter_is_lost(
    a: FaultyNode, b: FaultyNode, direct: str, is_seeded: bool
) -> None:
    """What says that something was deleted is lost with it."""
    for node in (a, b, a):
        await node.core.registry.renew_node()
    gate = Gate()
    a.keyspace.fail("inbox_index", gate)
    sent = a.submit("alice", direct, "m1")
    await gate.reached.wait()
    await b.core.rewrites.delete("alice", direct, 1)
    await a.command("DEL", a.core.keys.conv(direct))
    if is_seeded:
        await b.core.counters.seed(direct)
    gate.opened.set()
    assert code_of(await sent) == "stored"
    assert await a.unread("bob") == 0 and await a.wrong() == []


async def test_a_resend_far_below_does_not_read_the_log_between(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(30):
        await a.send("alice", group, f"m{i}")
    await a.core.rewrites.delete("alice", group, 20)
    pages, page = [], a.core.index.tables.log.page

    async def counted(*args: Any, **options: Any) -> list[Entry]:
        pages.append(options["limit"])
        return await page(*args, **options)

    monkeypatch.setattr(a.core.index.tables.log, "page", counted)
    await asyncio.gather(a.submit("alice", group, "m0"), a.submit("alice", group, "new"))
    assert set(pages) == {1}


async def test_a_message_that_was_counted_after_its_delete_is_taken_out_by_a_resend(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m0")
    assert await a.unread("bob") == 1
    a.keyspace.fail("inbox_index", down)
    assert await a.code("alice", direct, "m1") == "unavailable"
    before = await a.log(direct)
    await a.core.rewrites.delete("alice", direct, 2)
    member_list = await a.core.access.load(direct)
    assert member_list is not None
    late = a.core.index._calls(member_list, before, before[-1].sent_ms, None)
    await a.keyspace.run([call for _, call in late])  # by a node that died before it looked again
    assert await a.wrong()
    assert await a.code("alice", direct, "m1") == "duplicate"
    assert await a.unread("bob") == 1 and await a.wrong() == []
