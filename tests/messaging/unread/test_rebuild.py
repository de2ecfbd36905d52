"""The index comes back from the tables: once, whole, and exact, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.messaging.big_inboxes import put_many
from tests.support.messaging.faulty_stores import FaultyNode, Gate, open_faulty
from tests.support.messaging.warm_index_checks import check_warm, say
from tests.support.waiting import eventually
from tidings.bounds import REBUILDS_BIG_MAX, REBUILDS_MAX
from tidings.config.settings import Node, Settings
from tidings.errors import NotFound
from tidings.messaging.unread import count
from tidings.messaging.unread.count import is_shown, score_of
from tidings.model import Content, Head, Row, Totals
from tidings.node import graph
from tidings.node.graph import Core
from tidings_proof.world.valkey import ValkeyProcess, start_valkey


def rebuilds(node: FaultyNode, what: str = "inbox") -> int:
    return int(node.core.metrics.rebuilds[what].value)


async def forget(node: FaultyNode, user_id: str) -> None:
    """The user's marks are gone, as after a flush."""
    await node.command("DEL", node.core.keys.mark(user_id))


# --- detached ---------------------------------------------------------------------------------------


async def test_a_rebuild_outlives_the_reader_that_asked_and_a_later_reader_joins_it(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await forget(a, "bob")
    gate, before = Gate(), rebuilds(a)
    a.keyspace.fail("inbox_install", gate)
    reader = asyncio.create_task(a.core.unread.totals("bob"))
    await gate.reached.wait()
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    later = asyncio.create_task(a.core.unread.totals("bob"))
    gate.opened.set()
    assert await later == Totals(1, 1) and rebuilds(a) - before == 1


async def test_a_small_inbox_does_not_wait_for_big_ones(a: FaultyNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count, "REBUILD_CHUNK", 2)
    big, stopped = [f"big{n}" for n in range(REBUILDS_MAX + 2)], asyncio.Event()
    for number in range(3):
        await a.core.directory.create("owner", kind="group", members=[*big, "small"][: len(big) + (number == 0)])
    for user_id in (*big, "small"):
        await forget(a, user_id)
    scan, waiting = a.tables.inboxes.scan, set[str]()

    async def slow(user_id: str, *, after_id: str, limit: int) -> list[Row]:
        if user_id in big and after_id:  # the second chunk
            waiting.add(user_id)
            await stopped.wait()
        return await scan(user_id, after_id=after_id, limit=limit)

    monkeypatch.setattr(a.tables.inboxes, "scan", slow)
    readers = [asyncio.create_task(a.core.unread.totals(user_id)) for user_id in big]
    await eventually(lambda: len(waiting) == REBUILDS_BIG_MAX)
    assert await a.core.unread.totals("small") == Totals(0, 0)
    assert len(waiting) == REBUILDS_BIG_MAX and not any(reader.done() for reader in readers)
    stopped.set()
    assert set(await asyncio.gather(*readers)) == {Totals(0, 0)}


async def test_a_resume_does_not_wait_for_a_rebuild(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await forget(a, "bob")
    gate = Gate()
    a.keyspace.fail("inbox_install", gate)
    reader = asyncio.create_task(a.core.unread.totals("bob"))
    await gate.reached.wait()
    state = await a.core.unread.state_soon("bob", direct)
    assert (state.unread_count, state.total_unread) == (1, None)
    gate.opened.set()
    assert await reader == Totals(1, 1)
    assert (await a.core.unread.state_soon("bob", direct)).total_unread == 1


# --- once -------------------------------------------------------------------------------------------


async def test_fifty_readers_of_a_cold_user_cause_one_rebuild(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await forget(a, "bob")
    before = rebuilds(a)
    totals_reads = [a.core.unread.totals("bob") for _ in range(25)]
    pages = [a.core.inbox.page("bob", limit=20, cursor=None) for _ in range(25)]
    totals = await asyncio.gather(*totals_reads)
    assert set(totals) == {Totals(1, 1)}
    assert {page.totals for page in await asyncio.gather(*pages)} == {Totals(1, 1)}
    assert rebuilds(a) - before == 1


async def test_fifty_readers_on_two_nodes_cause_one_rebuild(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await forget(a, "bob")
    before = rebuilds(a) + rebuilds(b)
    asked = [node.core.inbox.page("bob", limit=20, cursor=None) for _ in range(25) for node in (a, b)]
    assert {page.totals for page in await asyncio.gather(*asked)} == {Totals(1, 1)}
    assert rebuilds(a) + rebuilds(b) - before == 1


async def test_fifty_readers_of_one_cold_conversation_cause_one_rebuild_of_it(a: FaultyNode, direct: str) -> None:
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
    await b.command("HSET", b.core.keys.mark("bob"), ":beat", 1)  # as if it were silent for long
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


async def test_a_message_sent_during_a_rebuild_is_counted_and_does_not_repeat_the_rebuild(
    a: FaultyNode, direct: str
) -> None:
    await a.send("alice", direct, "m1")
    await forget(a, "bob")
    before = rebuilds(a)
    gate = Gate()
    a.keyspace.fail("inbox_install", gate)
    reader = asyncio.create_task(a.core.unread.totals("bob"))
    await gate.reached.wait()
    await a.send("alice", direct, "m2")
    view, _ = await a.core.directory.create("carol", kind="direct", members=["bob"])
    await a.send("carol", view.head.conversation_id, "m3")
    gate.opened.set()
    assert await reader == Totals(3, 2)
    assert rebuilds(a) - before == 1
    assert await check_warm(a.core, "bob")


async def test_joins_leaves_and_deletes_during_a_rebuild_are_in_its_result(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.send("alice", group, "m2")
    other, _ = await a.core.directory.create("alice", kind="group", members=["dave"])
    third, _ = await a.core.directory.create("alice", kind="group", members=["bob"])
    await a.send("alice", third.head.conversation_id, "m1")
    await forget(a, "bob")
    a.keyspace.runs.clear()
    gate = Gate()
    a.keyspace.fail("inbox_install", gate)
    reader = asyncio.create_task(a.core.inbox.page("bob", limit=20, cursor=None))
    await gate.reached.wait()
    await a.core.rewrites.delete("alice", group, 1)
    changes = [
        asyncio.create_task(a.core.directory.add("alice", other.head.conversation_id, ["bob"])),
        asyncio.create_task(a.core.directory.remove("bob", third.head.conversation_id, "bob")),
    ]
    await eventually(lambda: {"inbox_join", "inbox_leave"} <= set(a.keyspace.said))
    gate.opened.set()
    page = await reader
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
    reader = asyncio.create_task(a.core.unread.totals("bob"))
    await gate.reached.wait()
    await forget(a, "bob")
    await a.send("alice", direct, "m2")
    gate.opened.set()
    assert await reader == Totals(2, 1)
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
            reader = asyncio.create_task(a.core.unread.totals("bob"))
            await gate.reached.wait()
            await a.send("alice", view.head.conversation_id, "m2")
            if what == "everything":
                await say(a.core, b"FLUSHALL")
            else:
                for key in await say(a.core, b"KEYS", b"unread:*:*:*"):
                    await say(a.core, b"DEL", key)
            gate.opened.set()
            assert await reader == Totals(2, 1)
            assert await check_warm(a.core, "bob")
    finally:
        server.stop()


async def test_a_message_indexed_while_its_conversation_is_rebuilt_is_counted(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.command("DEL", a.core.keys.unread("bob", direct))
    await a.send("alice", direct, "m2")
    gate = Gate()
    a.keyspace.fail("unread_install", gate)
    reader = asyncio.create_task(a.core.unread.state("bob", direct))
    await gate.reached.wait()
    await a.send("alice", direct, "m3")
    gate.opened.set()
    assert (await reader).unread_count == 3
    assert await a.wrong() == []


async def test_a_conversation_without_a_row_leaves_the_inbox_when_it_is_rebuilt(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.core.tables.conversations.delete(group)  # and the keyspace hears nothing of it
    with pytest.raises(NotFound):
        await a.core.rebuilds.conversation("bob", group, version=1 << 53)
    assert await a.core.unread.totals("bob") == Totals(0, 0)
    assert await check_warm(a.core, "bob")


# --- never half-built, while sends keep coming --------------------------------------------------------


async def test_a_half_built_inbox_or_count_is_never_shown_while_sends_keep_coming(a: FaultyNode, b: FaultyNode) -> None:
    ids = await put_many(a.core.tables, "bob", 700, unread_every=2)
    sent = acked = 0

    async def send(node: FaultyNode) -> None:
        nonlocal sent, acked
        while not stop.is_set():
            sent += 1
            await node.send("other", ids[sent * 31 % len(ids)], f"m{sent}")
            acked += 1

    async def read_inbox(node: FaultyNode) -> None:
        for _ in range(4):
            await forget(node, "bob")
            least = 350 + acked
            page = await node.core.inbox.page("bob", limit=100, cursor=None)
            assert not page.is_stale and len(page.items) == 100
            assert least <= page.totals.total_unread <= 350 + sent
            assert all(item.state.total_unread == page.totals.total_unread for item in page.items)

    stop = asyncio.Event()
    senders = [asyncio.create_task(send(node)) for node in (a, b)]
    await asyncio.gather(*(read_inbox(node) for node in (a, b) for _ in range(5)))
    stop.set()
    await asyncio.gather(*senders)
    assert await a.unread("bob") == await b.unread("bob") == 350 + acked
    assert await a.wrong() == []


# --- another epoch of the server -----------------------------------------------------------------------


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

    async with graph.open_core(wanted("a")) as a, graph.open_core(wanted("b")) as b:
        yield [a, b]


def is_in_another_epoch(node: Core, epoch: str) -> bool:
    return node.keyspace.is_up() and node.keyspace.epoch("") != epoch


async def test_counts_of_an_older_copy_of_the_keyspace_are_never_shown(
    settings: Settings, mortal: ValkeyProcess
) -> None:
    async with two_nodes(settings, mortal) as (a, b):
        view, _ = await a.directory.create("alice", kind="group", members=["bob", "carol"])
        id_ = view.head.conversation_id
        for user_id in ("alice", "bob", "carol"):
            await a.unread.totals(user_id)
        await a.sends.send("alice", id_, "m1", Content("one"))
        aof, copy = mortal.folder / "appendonlydir", mortal.folder / "copy"
        shutil.copytree(aof, copy)
        await a.sends.send("alice", id_, "m2", Content("two"))
        await b.unread.mark_read("bob", id_, up_to_seq=1)
        await b.directory.remove("alice", id_, "carol")
        epochs = [node.keyspace.epoch("") for node in (a, b)]
        mortal.kill()
        shutil.rmtree(aof)
        copy.rename(aof)
        mortal.start()
        await eventually(lambda: all(is_in_another_epoch(*pair) for pair in zip((a, b), epochs, strict=True)))
        assert await say(a, b"EXISTS", a.keys.mark("bob")) == 1  # it seems warm
        for node in (a, b):
            assert await node.unread.totals("bob") == Totals(1, 1)
            assert await node.unread.totals("carol") == Totals(0, 0)
            assert (await node.inbox.page("carol", limit=20, cursor=None)).items == []
        await b.sends.send("alice", id_, "m3", Content("three"))
        assert await a.unread.totals("bob") == Totals(2, 1)
        assert (await a.verify.run(None, repair=False)).wrong == []


# --- the small functions ------------------------------------------------------------------------------


def test_a_hidden_conversation_is_shown_with_its_first_message() -> None:
    row = Row(user_id="u", conversation_id="c", kind="direct", is_hidden=True)
    head = Head(conversation_id="c", kind="direct", created_ms=1)
    assert not is_shown(head, row)
    spoken = Head(conversation_id="c", kind="direct", created_ms=1, last_seq=1, last_ms=5)
    assert is_shown(spoken, row) and score_of(spoken, row) == 5
