"""Resume: everything missed, once and in order, then live; or plainly that there is more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import msgspec
import pytest

from tests.conftest import Connect
from tests.support.devices.plain_client import Client
from tests.support.messaging.faulty_stores import After, Device, FaultyNode
from tests.support.messaging.two_nodes import telling, write
from tests.support.waiting import eventually
from tidings.bounds import PAGE_MAX, RESUME_ENTRIES_MAX, SOCKET_QUEUE_BYTES_MAX, TEXT_BYTES_MAX
from tidings.errors import Close, StoreUnavailable
from tidings.messaging.reading import resume as module
from tidings.model import ContentPatch, Entry, Head
from tidings.node.node import Node
from tidings.pushes import ConversationRemoved, ConversationUpdated, Event, MessageNew, Resumed


class Reader(Device):
    """A device that holds live events back while it resumes, as the gateway's connection does."""

    def __init__(self, user_id: str, connection_id: str = "reader") -> None:
        super().__init__(user_id, connection_id)
        self.live: list[Event] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.unread_entries = 0  # pushed since the reader was last waited for

    def push(self, event: Event) -> None:
        self.live.append(event)

    def push_now(self, event: Event) -> None:
        self.unread_entries += isinstance(event, MessageNew)
        super().push_now(event)

    async def drained(self) -> None:
        await self.may_read.wait()
        self.unread_entries = 0

    def answers(self) -> dict[str, Resumed]:
        return {event.conversation_id: event for event in self.events if isinstance(event, Resumed)}

    def of(self, conversation_id: str) -> list[int]:
        entries = [event.entry for event in self.events if isinstance(event, MessageNew)]
        return [entry.seq_no for entry in entries if entry.conversation_id == conversation_id]


async def resumed(node: FaultyNode, user_id: str, named: dict[str, int], since: int | None = None) -> Reader:
    reader = Reader(user_id)
    await node.core.resume.catch_up(reader, named, since)
    return reader


# --- what was missed ------------------------------------------------------------------------------


async def test_everything_after_the_seq_comes_in_order_and_then_how_it_stands(a: FaultyNode, group: str) -> None:
    for n in range(6):
        await a.send("alice", group, f"m{n}")
    await a.core.unread.mark_read("bob", group, up_to_seq=4)
    await a.core.receipts.flush()
    reader = await resumed(a, "bob", {group: 2})
    assert reader.seqs() == [3, 4, 5, 6]
    assert reader.events[-1] == Resumed(
        conversation_id=group,
        from_seq=3,
        to_seq=6,
        complete=True,
        reset=False,
        read_seq=4,
        unread_count=2,
        delivered_all_seq=0,
        read_all_seq=0,
    )
    sender = await resumed(a, "alice", {group: 6})
    assert sender.seqs() == [] and (sender.answers()[group].delivered_all_seq, sender.answers()[group].complete) == (
        0,
        True,
    )
    other = await resumed(a, "carol", {group: 0})
    assert other.answers()[group].unread_count == 6 and other.seqs() == [1, 2, 3, 4, 5, 6]


async def test_every_kind_of_entry_is_replayed(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await a.core.rewrites.edit("alice", group, 1, ContentPatch("better"))
    await a.core.directory.add("alice", group, ["dave"])
    await a.core.rewrites.delete("alice", group, 1)
    await write(a, group, 6, 1)
    await a.core.log.close(group, 5, 5)
    reader = await resumed(a, "bob", {group: 0})
    kinds = [event.entry.kind for event in reader.events if isinstance(event, MessageNew)]
    assert kinds == ["message", "edit", "member", "delete", "void", "message"]
    texts = [event.entry.text for event in reader.events if isinstance(event, MessageNew)]
    assert texts[:2] == [None, None], "a deleted text is not replayed, nor is its edit"


async def test_what_is_longer_than_a_resume_is_said_to_be_incomplete_and_goes_on_as_history(
    a: FaultyNode, group: str
) -> None:
    await write(a, group, 1, RESUME_ENTRIES_MAX + PAGE_MAX + 7)
    reader = await resumed(a, "bob", {group: 3})
    answer = reader.answers()[group]
    assert (answer.from_seq, answer.to_seq, answer.complete) == (4, 3 + RESUME_ENTRIES_MAX, False)
    assert reader.seqs() == list(range(4, answer.to_seq + 1))
    page = await a.core.history.page("bob", group, after_seq=answer.to_seq, limit=100)
    assert page.entries[-1].seq_no == answer.to_seq + 1
    again = await resumed(a, "bob", {group: answer.to_seq})
    assert again.answers()[group].complete and len(again.seqs()) == PAGE_MAX + 4


async def test_a_seq_beyond_the_head_is_a_reset_and_everything_comes_again(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    reader = await resumed(a, "bob", {group: 7})
    answer = reader.answers()[group]
    assert (answer.reset, answer.from_seq, answer.to_seq, answer.complete) == (True, 1, 1, True)
    assert reader.seqs() == [1]


async def test_below_an_open_slot_it_is_not_complete(a: FaultyNode, group: str) -> None:
    await a.send("alice", group, "m1")
    await write(a, group, 3, 1)
    answer = (await resumed(a, "bob", {group: 0})).answers()[group]
    assert (answer.to_seq, answer.complete) == (1, False)
    a.clock.ahead_ms += 4_000
    reader = await resumed(a, "bob", {group: 1})
    assert reader.seqs() == [2, 3] and reader.answers()[group].complete


async def test_nobody_sees_more_than_their_membership(a: FaultyNode) -> None:
    view, _ = await a.core.directory.create("alice", kind="group", members=["bob"], history="joined")
    c = view.head.conversation_id
    await a.send("alice", c, "m1")
    await a.core.directory.add("alice", c, ["dave"])  # 2
    await a.send("alice", c, "m3")
    reader = await resumed(a, "dave", {c: 0})
    assert reader.seqs() == [3] and reader.answers()[c].from_seq == 3
    await a.core.directory.remove("alice", c, "bob")
    for stranger, named in (("bob", c), ("mallory", c), ("alice", "c-nowhere")):
        reader = await resumed(a, stranger, {named: 0})
        assert reader.events == [ConversationRemoved(named)]


async def test_many_conversations_are_resumed_each_in_one_piece(a: FaultyNode) -> None:
    ids = []
    for n in range(30):
        view, _ = await a.core.directory.create("alice", kind="group", members=["bob"])
        ids.append(view.head.conversation_id)
        await write(a, ids[-1], 1, n + 1)
    reader = await resumed(a, "bob", dict.fromkeys(ids, 0))
    assert {id_: reader.of(id_) for id_ in ids} == {id_: list(range(1, n + 2)) for n, id_ in enumerate(ids)}
    order = [
        event.entry.conversation_id if isinstance(event, MessageNew) else event.conversation_id
        for event in reader.events
        if isinstance(event, MessageNew | Resumed)
    ]
    pieces = [id_ for n, id_ in enumerate(order) if n == 0 or order[n - 1] != id_]
    assert sorted(pieces) == sorted(ids)


async def test_conversations_that_were_not_named_but_changed_are_announced(a: FaultyNode, group: str) -> None:
    quiet, _ = await a.core.directory.create("alice", kind="group", members=["bob"])
    view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
    joined = (await a.core.directory.create("carol", kind="group", members=["alice"]))[0].head.conversation_id
    since = a.clock.now_ms() + 1
    await eventually(lambda: a.clock.now_ms() > since)
    await a.send("alice", view.head.conversation_id, "m1")
    await a.send("alice", group, "m2")
    await a.core.directory.add("carol", joined, ["bob"])
    reader = await resumed(a, "bob", {group: 0}, since)
    told = {
        event.item.row.conversation_id: (event.item.row.last_seq, event.item.state.unread_count)
        for event in reader.events
        if isinstance(event, ConversationUpdated)
    }
    assert told == {view.head.conversation_id: (1, 1), joined: (0, 0)}
    assert quiet.head.conversation_id not in told and reader.seqs() == [1]
    assert (await resumed(a, "bob", {}, None)).events == []


async def test_conversations_that_were_named_do_not_count_among_those_that_are_announced(
    a: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESUME_CONVERSATIONS_MAX", 2)
    ids = [(await a.core.directory.create("alice", kind="group", members=["bob"]))[0] for _ in range(5)]
    old, older, oldest, *named = [view.head.conversation_id for view in ids]
    since = a.clock.now_ms()
    for n, conversation_id in enumerate([oldest, older, old, *named]):
        await a.send("alice", conversation_id, f"m{n}")
        await asyncio.sleep(0.002)
    reader = await resumed(a, "bob", dict.fromkeys(named, 1), since)
    told = [event.item.row.conversation_id for event in reader.events if isinstance(event, ConversationUpdated)]
    assert told == [old, older], "as many as may be, the newest"


# --- the reader -----------------------------------------------------------------------------------


async def test_a_resume_goes_on_as_fast_as_the_reader_takes_it(a: FaultyNode, group: str) -> None:
    await write(a, group, 1, 250)
    reader = Reader("bob")
    reader.may_read.clear()
    work = asyncio.create_task(a.core.resume.catch_up(reader, {group: 0}, None))
    await eventually(lambda: reader.unread_entries > 0)
    assert len(reader.seqs()) * TEXT_BYTES_MAX < SOCKET_QUEUE_BYTES_MAX, "what waits fits the queue, however long it is"
    reader.may_read.set()
    await work
    assert reader.seqs() == list(range(1, 251)) and reader.closed == []


async def test_a_reader_that_takes_nothing_does_not_hold_up_the_others(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.05)
    await write(a, group, 1, 50)
    reader = Reader("bob")
    reader.may_read.clear()
    await a.core.resume.catch_up(reader, {group: 0}, None)
    assert Close.SLOW in reader.closed


class Place:
    """A turn that is counted."""

    def __init__(self, may_lend: bool = True) -> None:
        self.may_lend = may_lend
        self.steps: list[str] = []

    def give_back(self) -> bool:
        self.steps.append("back" if self.may_lend else "kept")
        return self.may_lend

    async def take_again(self) -> None:
        self.steps.append("again")


async def test_whoever_waits_for_a_reader_gives_the_turn_back_meanwhile(a: FaultyNode, group: str) -> None:
    await write(a, group, 1, 30)
    reader, turn = Reader("bob"), Place()
    await a.core.resume.catch_up(reader, {group: 25}, None, turn)
    assert turn.steps == [], "who keeps up is waited for by nobody"
    reader.may_read.clear()
    work = asyncio.create_task(a.core.resume.catch_up(reader, {group: 0}, None, turn))
    await eventually(lambda: turn.steps == ["back"])
    reader.may_read.set()
    await work
    assert turn.steps == ["back", "again"] and reader.closed == []


async def test_a_resume_that_fails_leaves_nothing_under_way(a: FaultyNode, group: str) -> None:
    """Whoever waits for a reader would take a turn again that nobody gives back."""
    await write(a, group, 1, 30)
    reader, turn = Reader("bob"), Place()
    reader.may_read.clear()
    after, is_written = a.core.log.after, eventually(lambda: turn.steps == ["back"])

    async def failing(conversation_id: str, seq_no: int, limit: int) -> list[Entry]:
        if conversation_id == group:
            return await after(conversation_id, seq_no, limit)
        await is_written
        raise StoreUnavailable

    other = await a.core.directory.create("alice", kind="group", members=["bob"])
    a.core.log.after = failing  # type: ignore[method-assign,assignment]
    with pytest.raises(StoreUnavailable):
        await a.core.resume.catch_up(reader, {group: 0, other[0].head.conversation_id: 0}, None, turn)
    reader.may_read.set()
    await asyncio.sleep(0)
    assert turn.steps == ["back"] and not [task for task in asyncio.all_tasks() if task.get_name() == "resume"]


async def test_where_too_many_lag_a_reader_that_does_is_slow(a: FaultyNode, group: str) -> None:
    await write(a, group, 1, 10)
    reader, turn = Reader("bob"), Place(may_lend=False)
    reader.may_read.clear()
    await a.core.resume.catch_up(reader, {group: 0}, None, turn)
    assert reader.closed == [Close.SLOW] and turn.steps == ["kept"]


# --- the seam -------------------------------------------------------------------------------------


@pytest.fixture
async def two(a: FaultyNode, b: FaultyNode) -> AsyncIterator[None]:
    async with telling(a, b):
        yield


async def test_what_comes_during_a_resume_makes_it_neither_incomplete_nor_double(
    a: FaultyNode, b: FaultyNode, two: None, group: str
) -> None:
    await a.send("alice", group, "m1")
    reader = Reader("bob")
    assert b.core.hub.attach(reader)
    await b.core.registry.claim(reader)
    gate = After()
    b.keyspace.fail("unread_state", gate)  # the log was read, the answer is not written yet
    work = asyncio.create_task(b.core.resume.catch_up(reader, {group: 0}, None))
    await gate.reached.wait()
    await a.send("alice", group, "m2")
    gate.opened.set()
    await work
    assert reader.answers()[group].complete and reader.seqs() == [1]
    await eventually(lambda: len(reader.live) > 0)
    assert reader.answers()[group].to_seq == 1
    after = [event.entry.seq_no for event in reader.live if isinstance(event, MessageNew) and event.entry.seq_no > 1]
    assert after == [2]


async def test_what_was_replayed_is_not_pushed_again_also_where_more_is_to_come(a: FaultyNode, group: str) -> None:
    await write(a, group, 1, RESUME_ENTRIES_MAX + 10)
    reader = await resumed(a, "bob", {group: 0})
    assert not reader.answers()[group].complete
    assert reader.answers()[group].to_seq == RESUME_ENTRIES_MAX


async def test_live_follows_what_was_missed_on_a_socket_while_everybody_talks(node: Node, connect: Connect) -> None:
    alice, carol = await connect("alice"), await connect("carol")
    view, _ = await node.core.directory.create("alice", kind="group", members=["bob", "carol"])
    c = view.head.conversation_id
    said = 0

    async def talk(client: Client, name: str, count: int) -> None:
        nonlocal said
        for n in range(count):
            await client.say(c, f"{name}{n}", f"{name} {n}")
            said += 1

    talking = asyncio.gather(talk(alice, "a", 150), talk(carol, "c", 150))
    readers: list[tuple[int, Client]] = []
    for n in range(10):
        await eventually(lambda n=n: said >= n * 25 + 10)  # type: ignore[misc]
        had = n * 20
        readers.append((had, await connect("bob", device=f"d{n}", resume={c: had})))
    await talking
    for had, reader in readers:
        await eventually(lambda had=had, reader=reader: len(reader.messages(c)) >= 300 - had)  # type: ignore[misc]
        assert [message["seq"] for message in reader.messages(c)] == list(range(had + 1, 301))
        answer = await reader.event(lambda frame: frame["type"] == "resumed")
        assert (answer["from_seq"], answer["complete"], answer["reset"]) == (had + 1, True, False)


async def test_texts_larger_than_a_sockets_queue_together_are_resumed_in_one_go(node: Node, connect: Connect) -> None:
    alice = await connect("alice")
    view, _ = await node.core.directory.create("alice", kind="direct", members=["bob"])
    c = view.head.conversation_id
    text, count = "x" * TEXT_BYTES_MAX, 4 * SOCKET_QUEUE_BYTES_MAX // TEXT_BYTES_MAX
    await asyncio.gather(*(alice.say(c, f"m{n}", text) for n in range(count)))
    bob = await connect("bob", resume={c: 0})
    answer = await bob.event(lambda frame: frame["type"] == "resumed", within_s=60)
    assert (answer["to_seq"], answer["complete"]) == (count, True)
    assert [message["seq"] for message in bob.messages(c)] == list(range(1, count + 1))
    assert bob.close_code is None


async def test_a_head_row_that_is_behind_the_log_resets_nobody(a: FaultyNode, group: str) -> None:
    """DynamoDB raises it after the entries: whoever was shown one in between is not of another store."""
    await write(a, group, 1, 3)
    heads = a.tables.conversations.heads

    async def behind(ids: Iterable[str]) -> dict[str, Head]:
        return {id_: msgspec.structs.replace(head, head=2) for id_, head in (await heads(ids)).items()}

    a.tables.conversations.heads = behind  # type: ignore[method-assign,assignment]
    bob = Reader("bob")
    await a.core.resume.catch_up(bob, {group: 3}, None)
    assert bob.answers()[group].reset is False and bob.of(group) == []
    await a.core.resume.catch_up(bob, {group: 4}, None)
    assert bob.answers()[group].reset is True


async def test_who_is_removed_while_the_log_is_read_is_shown_nothing_of_it(
    a: FaultyNode, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = a.core.log.after

    async def removed_meanwhile(conversation_id: str, seq_no: int, limit: int) -> list[Entry]:
        monkeypatch.setattr(a.core.log, "after", after)
        await a.core.directory.remove("alice", group, "bob")
        await a.send("alice", group, "secret")
        return await after(conversation_id, seq_no, limit)

    await a.send("alice", group, "m1")
    monkeypatch.setattr(a.core.log, "after", removed_meanwhile)
    bob = Reader("bob")
    await a.core.resume.catch_up(bob, {group: 0}, None)
    assert bob.of(group) == [] and bob.events == [ConversationRemoved(group)]
