"""The index comes back from the tables: once, whole, and exact, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.messaging.faulty import FaultyNode, Gate, open_faulty
from tests.messaging.many import put_many
from tests.messaging.warmth import check_warm, say
from tests.valkey import ValkeyProcess, eventually, start_valkey
from tidings import wiring
from tidings.config import Node, Settings
from tidings.errors import NotFound
from tidings.messaging.rebuild import effective, is_in, is_shown, score_of
from tidings.model import Head, Row, Status, Totals
from tidings.wiring import Core


def rebuilds(node: FaultyNode, what: str = "inbox") -> int:
    return int(node.core.metrics.rebuilds[what].value)


async def forget(node: FaultyNode, user_id: str) -> None:
    """The user's marks are gone, as after a flush."""
    await node.command("DEL", node.core.keys.mark(user_id))


# --- once -------------------------------------------------------------------------------------------


async def test_fifty_who_ask_for_a_cold_user_at_once_cause_one_rebuild(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await forget(a, "bob")
    before = rebuilds(a)
    looks = [a.core.unread.totals("bob") for _ in range(25)]
    pages = [a.core.inbox.page("bob", limit=20, cursor=None) for _ in range(25)]
    totals = await asyncio.gather(*looks)
    assert set(totals) == {Totals(1, 1)}
    assert {page.totals for page in await asyncio.gather(*pages)} == {Totals(1, 1)}
    assert rebuilds(a) - before == 1


async def test_fifty_who_ask_two_nodes_cause_one_rebuild(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await forget(a, "bob")
    before = rebuilds(a) + rebuilds(b)
    asked = [node.core.inbox.page("bob", limit=20, cursor=None) for _ in range(25) for node in (a, b)]
    assert {page.totals for page in await asyncio.gather(*asked)} == {Totals(1, 1)}
    assert rebuilds(a) + rebuilds(b) - before == 1


async def test_fifty_who_ask_for_one_cold_conversation_cause_one_rebuild_of_it(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.command("DEL", a.core.keys.unread("bob", direct))
    await a.send("alice", direct, "m2")  # finds the set gone
    before = rebuilds(a, "unread"), rebuilds(a)
    states = await asyncio.gather(*(a.core.unread.state("bob", direct) for _ in range(50)))
    assert {state.unread_count for state in states} == {2}
    assert (rebuilds(a, "unread") - before[0], rebuilds(a) - before[1]) == (1, 0)


async def test_a_rebuild_under_way_on_another_node_is_waited_for(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await forget(a, "bob")
    gate = Gate()
    a.keyspace.fail("inbox_install", gate)
    first = asyncio.create_task(a.core.unread.totals("bob"))
    await gate.reached.wait()
    second = asyncio.create_task(b.core.unread.totals("bob"))
    await eventually(lambda: b.keyspace.said.count("inbox_begin") > 1)
    assert not second.done()
    gate.opened.set()
    assert await first == await second == Totals(1, 1)
    assert rebuilds(b) == 0


async def test_a_rebuild_of_a_node_that_died_is_taken_over(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await forget(a, "bob")
    gate = Gate()
    a.keyspace.fail("inbox_install", gate)
    dead = asyncio.create_task(a.core.unread.totals("bob"))
    await gate.reached.wait()
    await b.command("HSET", b.core.keys.mark("bob"), ":beat", 1)  # silent for long
    assert await b.core.unread.totals("bob") == Totals(1, 1)
    assert rebuilds(b) == 1
    await b.send("alice", direct, "m2")
    gate.opened.set()  # not dead after all: what it built is not installed over what is there
    assert await dead == Totals(2, 1)
    assert await b.wrong() == []


async def test_a_user_without_conversations_is_rebuilt_once_and_empty(a: FaultyNode) -> None:
    for _ in range(2):
        page = await a.core.inbox.page("nobody", limit=20, cursor=None)
        assert (page.items, page.totals, page.is_stale) == ([], Totals(0, 0), False)
    assert rebuilds(a) == 1


# --- exact, whatever happens meanwhile ----------------------------------------------------------------


async def test_what_is_sent_during_a_rebuild_is_counted_and_does_not_repeat_it(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await forget(a, "bob")
    before = rebuilds(a)
    gate = Gate()
    a.keyspace.fail("inbox_install", gate)
    look = asyncio.create_task(a.core.unread.totals("bob"))
    await gate.reached.wait()
    await a.send("alice", direct, "m2")
    view, _ = await a.core.directory.create("carol", kind="direct", members=["bob"])
    await a.send("carol", view.head.conversation_id, "m3")
    gate.opened.set()
    assert await look == Totals(3, 2)
    assert rebuilds(a) - before == 1
    assert await check_warm(a.core, "bob")


async def test_joins_leaves_reads_and_deletes_during_a_rebuild_are_taken_in(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.send("alice", group, "m2")
    other, _ = await a.core.directory.create("alice", kind="group", members=["dave"])
    third, _ = await a.core.directory.create("alice", kind="group", members=["bob"])
    await a.send("alice", third.head.conversation_id, "m1")
    await forget(a, "bob")
    a.keyspace.runs.clear()
    gate = Gate()
    a.keyspace.fail("inbox_install", gate)
    look = asyncio.create_task(a.core.inbox.page("bob", limit=20, cursor=None))
    await gate.reached.wait()
    await a.core.rewrites.delete("alice", group, 1)
    changes = [
        asyncio.create_task(a.core.directory.add("alice", other.head.conversation_id, ["bob"])),
        asyncio.create_task(a.core.directory.remove("bob", third.head.conversation_id, "bob")),
    ]
    await eventually(lambda: {"inbox_join", "inbox_leave"} <= set(a.keyspace.said))
    gate.opened.set()
    page = await look
    await asyncio.gather(*changes)
    assert [item.row.conversation_id for item in page.items] == [other.head.conversation_id, group]
    assert page.totals == Totals(1, 1)
    assert await a.wrong() == []


async def test_a_message_that_comes_between_two_losses_of_the_marks_is_counted(a: FaultyNode, direct: str) -> None:
    """The rebuild has read the tables; the marks go, a message comes, and only then the rebuild goes on."""
    await a.send("alice", direct, "m1")
    await forget(a, "bob")
    gate = Gate()
    a.keyspace.fail("ZADD", gate)  # what was read is about to be built aside
    look = asyncio.create_task(a.core.unread.totals("bob"))
    await gate.reached.wait()
    await forget(a, "bob")
    await a.send("alice", direct, "m2")
    gate.opened.set()
    assert await look == Totals(2, 1)
    assert await a.wrong() == []


@pytest.mark.parametrize("what", ["everything", "aside"])
async def test_a_flush_in_the_middle_of_a_rebuild_is_noticed(settings: Settings, tmp_path: Path, what: str) -> None:
    server = start_valkey(tmp_path / "v")
    try:
        async with open_faulty(dataclasses.replace(settings, keyspace=server.url), "a") as a:
            view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
            await a.send("alice", view.head.conversation_id, "m1")
            gate = Gate()
            a.keyspace.fail("inbox_install", gate)
            look = asyncio.create_task(a.core.unread.totals("bob"))
            await gate.reached.wait()
            await a.send("alice", view.head.conversation_id, "m2")
            if what == "everything":
                await say(a.core, b"FLUSHALL")
            else:
                for key in await say(a.core, b"KEYS", b"unread:*:*:*"):
                    await say(a.core, b"DEL", key)
            gate.opened.set()
            assert await look == Totals(2, 1)
            assert await check_warm(a.core, "bob")
    finally:
        server.stop()


async def test_a_message_indexed_while_its_conversation_is_rebuilt_is_counted(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.command("DEL", a.core.keys.unread("bob", direct))
    await a.send("alice", direct, "m2")
    gate = Gate()
    a.keyspace.fail("unread_install", gate)
    look = asyncio.create_task(a.core.unread.state("bob", direct))
    await gate.reached.wait()
    await a.send("alice", direct, "m3")
    gate.opened.set()
    assert (await look).unread_count == 3
    assert await a.wrong() == []


async def test_a_conversation_that_was_left_goes_from_the_inbox_when_it_is_looked_for(
    a: FaultyNode, group: str
) -> None:
    await a.send("alice", group, "m1")
    await a.core.tables.delete(group)  # and the keyspace hears nothing of it
    with pytest.raises(NotFound):
        await a.core.rebuilds.conversation("bob", group, version=1 << 53)
    assert await a.core.unread.totals("bob") == Totals(0, 0)
    assert await check_warm(a.core, "bob")


# --- never half-built, while sends keep coming --------------------------------------------------------


async def test_nobody_sees_a_half_built_inbox_or_count_while_sends_keep_coming(a: FaultyNode, b: FaultyNode) -> None:
    ids = await put_many(a.core.tables, "bob", 700, unread_every=2)
    sent = acked = 0

    async def send(node: FaultyNode) -> None:
        nonlocal sent, acked
        while not stop.is_set():
            sent += 1
            await node.send("other", ids[sent * 31 % len(ids)], f"m{sent}")
            acked += 1

    async def look(node: FaultyNode) -> None:
        for _ in range(4):
            await forget(node, "bob")
            least = 350 + acked
            page = await node.core.inbox.page("bob", limit=100, cursor=None)
            assert not page.is_stale and len(page.items) == 100
            assert least <= page.totals.total_unread <= 350 + sent
            assert all(item.state.total_unread == page.totals.total_unread for item in page.items)

    stop = asyncio.Event()
    senders = [asyncio.create_task(send(node)) for node in (a, b)]
    await asyncio.gather(*(look(node) for node in (a, b) for _ in range(5)))
    stop.set()
    await asyncio.gather(*senders)
    assert await a.unread("bob") == await b.unread("bob") == 350 + acked
    assert await a.wrong() == []


# --- another life of the server -----------------------------------------------------------------------


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[ValkeyProcess]:
    """A server that keeps what it has on disk."""
    server = start_valkey(tmp_path / "v", args=("--appendonly", "yes", "--appendfsync", "always"))
    yield server
    server.stop()


@asynccontextmanager
async def two_nodes(settings: Settings, server: ValkeyProcess) -> AsyncIterator[list[Core]]:
    def wanted(node_id: str) -> Settings:
        return dataclasses.replace(settings, keyspace=server.url, node=Node(id=node_id))

    async with wiring.open_core(wanted("a")) as a, wiring.open_core(wanted("b")) as b:
        yield [a, b]


def is_in_another_life(node: Core, epoch: str) -> bool:
    return node.keyspace.is_up() and node.keyspace.epoch("") != epoch


async def test_an_older_copy_of_the_keyspace_is_not_believed(settings: Settings, mortal: ValkeyProcess) -> None:
    async with two_nodes(settings, mortal) as (a, b):
        view, _ = await a.directory.create("alice", kind="group", members=["bob", "carol"])
        id_ = view.head.conversation_id
        for user_id in ("alice", "bob", "carol"):
            await a.unread.totals(user_id)
        await a.sends.send("alice", id_, "m1", "one")
        aof, copy = mortal.folder / "appendonlydir", mortal.folder / "copy"
        shutil.copytree(aof, copy)
        await a.sends.send("alice", id_, "m2", "two")
        await b.unread.mark_read("bob", id_, up_to_seq=1)
        await b.directory.remove("alice", id_, "carol")
        epochs = [node.keyspace.epoch("") for node in (a, b)]
        mortal.kill()
        shutil.rmtree(aof)
        copy.rename(aof)
        mortal.start()
        await eventually(lambda: all(is_in_another_life(*pair) for pair in zip((a, b), epochs, strict=True)))
        assert await say(a, b"EXISTS", a.keys.mark("bob")) == 1  # warm, by its looks
        for node in (a, b):
            assert await node.unread.totals("bob") == Totals(1, 1)
            assert await node.unread.totals("carol") == Totals(0, 0)
            assert (await node.inbox.page("carol", limit=20, cursor=None)).items == []
        await b.sends.send("alice", id_, "m3", "three")
        assert await a.unread.totals("bob") == Totals(2, 1)
        assert (await a.verify.run(None, repair=False)).wrong == []


# --- the small functions ------------------------------------------------------------------------------


def test_a_status_of_an_earlier_membership_counts_for_nothing() -> None:
    row = Row(user_id="u", conversation_id="c", kind="group", joined_seq=10)
    old = Status(conversation_id="c", user_id="u", cursor_seq=7, ranges=((9, 9),), version=3, since_seq=2)
    now = effective(old, row)
    assert (now.cursor_seq, now.ranges, now.version, now.since_seq) == (10, (), 3, 10)
    assert effective(now, row) is now
    assert effective(None, row).cursor_seq == 10


def test_ranges_include_both_ends() -> None:
    assert [seq for seq in range(1, 9) if is_in(((2, 3), (6, 6)), seq)] == [2, 3, 6]


def test_a_hidden_conversation_is_shown_with_its_first_message() -> None:
    row = Row(user_id="u", conversation_id="c", kind="direct", is_hidden=True)
    head = Head(conversation_id="c", kind="direct", created_ms=1)
    assert not is_shown(head, row)
    spoken = Head(conversation_id="c", kind="direct", created_ms=1, last_seq=1, last_ms=5)
    assert is_shown(spoken, row) and score_of(spoken, row) == 5
