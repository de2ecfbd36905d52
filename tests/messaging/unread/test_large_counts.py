"""Counts of large conversations are exact, whatever happens: the machine of test_unread.py across the line."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.messaging.unread.test_unread import MACHINE, UnreadMachine
from tests.support.messaging.faulty_stores import FaultyNode, answer_lost, open_faulty, request_lost
from tests.support.messaging.warm_index_checks import say
from tidings.clock import Dice
from tidings.config.settings import Settings
from tidings.errors import NotFound, Problem, StoreError, TooLarge
from tidings.messaging.reading.flags import FlagChange
from tidings.messaging.unread import large_counts, tallies
from tidings.model import Content, Entry, Head, Member, Row
from tidings_proof.world.valkey import start_valkey


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server of this module's own: it is flushed all the time."""
    UnreadMachine.server = start_valkey(tmp_path_factory.mktemp("u"))
    yield
    UnreadMachine.server.stop()


class LargeMachine(UnreadMachine):
    """Groups begin with three members: some are large from the beginning, others cross the line all the time."""

    members_large: ClassVar[int] = 2

    @rule(data=st.data(), part=st.sampled_from(("", ":seq", ":who", ":gone", "rev")))
    def lose_a_part_of_a_tally(self, data: st.DataObject, part: str) -> None:
        core, id_, _ = self._pick(data)
        self.run(say(core, b"DEL", core.keys.rev(id_) if part == "rev" else core.keys.tally(id_) + part))


class CrossingMachine(LargeMachine):
    members_large: ClassVar[int] = 3


class LargeCappedMachine(LargeMachine):
    cap: ClassVar[int] = 3


class LargeOfflineMachine(LargeMachine):
    policy: ClassVar[str] = "when_offline"


@pytest.mark.parametrize("machine", [LargeMachine, CrossingMachine, LargeCappedMachine, LargeOfflineMachine])
def test_counts_of_large_conversations_equal_a_plain_model_of_the_log(machine: type[UnreadMachine]) -> None:
    run_state_machine_as_test(machine, settings=MACHINE)


# --- marks that are too old, and members who leave --------------------------------------------------


@pytest.fixture
async def node(settings: Settings) -> AsyncIterator[FaultyNode]:
    """Three members are a large conversation, and three messages are the cap."""
    own = dataclasses.replace(settings, members_large=2, unread=dataclasses.replace(settings.unread, cap=3))
    async with open_faulty(own, "a") as made:
        yield made


async def large(node: FaultyNode, name: str = "three") -> str:
    view, _ = await node.core.directory.create("alice", kind="group", members=["bob", "carol"], name=name)
    assert view.head.large_ms > 0
    return view.head.conversation_id


async def test_however_many_archived_ones_come_back_they_are_counted_and_listed(
    node: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_counts, "TALLY_TRIES_MAX", 3)
    ids = [await large(node, f"group {number}") for number in range(5)]
    for id_ in ids:
        await node.send("alice", id_, "m1")
    assert await node.unread("bob") == 5
    for sent in ("m2", "m3"):
        for id_ in ids:
            await node.core.flags.set("bob", id_, FlagChange(archived=True))
        for id_ in ids:
            await node.send("alice", id_, sent)
        if sent == "m2":
            assert await node.unread("bob") == 10
        page = await node.core.inbox.page("bob", limit=50, cursor=None)
        assert not page.is_stale and {item.row.conversation_id for item in page.items} == set(ids)
    assert await node.unread("bob") == 15
    assert await node.wrong() == []


async def test_a_member_who_leaves_while_the_tables_count_is_not_found(
    node: FaultyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "TALLY_CHUNK", 2)
    id_ = await large(node)
    for number in range(9):
        await node.send("bob" if number > 1 else "alice", id_, f"m{number}")
    for part in ("", ":seq", ":who"):
        await node.command("DEL", node.core.keys.tally(id_) + part)
    await node.unread("bob")  # bob wrote all that the tally has, so the tables answer
    count, answer = node.core.large.counts.count, await node.keyspace.one(node.core.unread.firsts_call("bob", id_))
    count_one = count.one

    async def leave_first(user_id: str, conversation_id: str) -> Any:
        monkeypatch.setattr(count, "one", count_one)
        await node.core.directory.remove("alice", id_, "bob")
        return await count_one(user_id, conversation_id)

    monkeypatch.setattr(count, "one", leave_first)
    with pytest.raises(NotFound):
        await node.core.unread.firsts("bob", id_, answer)


# --- many members: what some of them are shown, and a plain recount -------------------------------


class Crowd:
    """A channel of many members on two nodes, of whom some are watched. Others only post."""

    def __init__(self, nodes: Sequence[FaultyNode], members: int, watched: int) -> None:
        self.nodes = nodes
        self.dice = Dice(7)
        self.id = "crowd"
        self.names = [f"user{number}" for number in range(members)]
        self.watched = self.dice.sample(self.names, watched)
        self.sent: list[tuple[int, str]] = []  # number, sender
        self.posts = 0

    async def begin(self) -> None:
        head = Head(conversation_id=self.id, kind="channel", created_ms=1, name="crowd", large_ms=1)
        members = [Member(conversation_id=self.id, user_id=name, joined_ms=1) for name in self.names]
        rows = [
            Row(user_id=name, conversation_id=self.id, kind="channel", name="crowd", joined_ms=1) for name in self.names
        ]
        assert await self.nodes[0].tables.conversations.create(head, members, rows)

    async def act(self) -> None:
        node, user_id = self.dice.choice(self.nodes), self.dice.choice(self.watched)
        what = self.dice.choices(
            ("post", "own", "delete", "read", "single", "unread", "block"), (60, 8, 6, 6, 12, 2, 1)
        )
        top = self.sent[-1][0] if self.sent else 0
        match what[0]:
            case "post":
                await self.post(node, self.dice.choice(self.names))
            case "own":
                await self.post(node, user_id)
            case "delete" if self.sent:
                seq_no, sender_id = self.sent.pop(self.dice.randrange(len(self.sent)))
                await node.core.rewrites.delete(sender_id, self.id, seq_no)
            case "read" if top:
                await node.core.unread.mark_read(user_id, self.id, up_to_seq=self.dice.randint(0, top))
            case "single" if top:
                with suppress(TooLarge):  # more single reads than a member may have
                    await node.core.unread.mark_read(user_id, self.id, seqs=[self.dice.randint(1, top)])
            case "unread" if top:
                await node.core.unread.mark_unread(user_id, self.id, from_seq=self.dice.randint(1, top))
            case "block":
                await node.core.blocks.block(user_id, self.dice.choice(self.names[:50]))

    async def post(self, node: FaultyNode, sender_id: str) -> None:
        named = (self.dice.choice(self.watched),) if self.dice.random() < 0.1 else ()
        content = Content(f"post {self.posts}", mentions=named, mention="all" if self.dice.random() < 0.02 else None)
        self.posts += 1
        sent = await node.core.sends.send(sender_id, self.id, f"m{self.posts}", content)
        self.sent.append((sent.entry.seq_no, sender_id))

    async def die(self) -> None:
        """A node stores a post and is never heard of again before it is counted. The author asks the other node."""
        dead, alive = self.dice.sample(self.nodes, 2)
        dead.keyspace.fail("tally_add", self.dice.choice((request_lost, answer_lost)))
        self.posts += 1
        author, message_id = self.dice.choice(self.names), f"m{self.posts}"
        with suppress(Problem, StoreError):
            await dead.core.sends.send(author, self.id, message_id, Content("again"))
        sent = await alive.core.sends.send(author, self.id, message_id, Content("again"))
        self.sent.append((sent.entry.seq_no, author))

    async def lose(self) -> None:
        """Everything, or a part of the conversation's index."""
        keys = self.nodes[0].core.keys
        parts = (keys.tally(self.id), keys.rev(self.id), *(keys.tally_set(self.id, name) for name in ("seq", "who")))
        lost = self.dice.choice((None, *parts))
        await (self.nodes[0].command("FLUSHALL", "SYNC") if lost is None else self.nodes[0].command("DEL", lost))

    async def check(self) -> None:
        entries = list[Entry]()
        while page := await self.nodes[0].tables.log.page(
            self.id, after=entries[-1].seq_no if entries else 0, before=1 << 53, limit=1_000, newest_first=False
        ):
            entries += page
        for user_id in self.watched:
            expected = await self.recount(user_id, entries)
            for node in self.nodes:
                state = await node.core.unread.state(user_id, self.id)
                shown = (state.unread_count, state.mention_count, state.first_unread_seq, state.total_unread)
                assert shown == expected, user_id

    async def recount(self, user_id: str, entries: Sequence[Entry]) -> tuple[int, int, int | None, int]:
        tables = self.nodes[0].tables
        status = (await tables.statuses.get(user_id, [self.id])).get(self.id)
        cursor, ranges = (status.cursor_seq, status.ranges) if status is not None else (0, ())
        blocked = {block.blocked_id for block in await tables.people.blocks_of(user_id)} | {user_id}
        unread = [
            entry
            for entry in entries
            if entry.kind == "message" and not entry.is_deleted and entry.seq_no > cursor
            if entry.sender_id not in blocked and not any(low <= entry.seq_no <= high for low, high in ranges)
        ]
        mentions = [entry for entry in unread if user_id in entry.mentions or "*" in entry.mentions]
        return len(unread), len(mentions), unread[0].seq_no if unread else None, len(unread)


async def play(settings: Settings, *, members: int, watched: int, acts: int) -> None:
    own = dataclasses.replace(settings, keyspace=UnreadMachine.server.url, members_large=50)
    async with open_faulty(own, "a") as a, open_faulty(own, "b") as b:
        crowd = Crowd((a, b), members, watched)
        await crowd.begin()
        for number in range(1, acts + 1):
            await crowd.act()
            if number % (acts // 10) == 0:
                await crowd.die()
            if number % (acts // 8) == 0:
                await crowd.lose()
            if number % (acts // 4) == 0:
                await crowd.check()
        assert (await a.core.verify.run(crowd.watched[0], repair=False)).wrong == []


async def test_what_members_of_a_crowd_are_shown_is_what_a_recount_finds(settings: Settings) -> None:
    await play(settings, members=120, watched=12, acts=120)


@pytest.mark.long
@pytest.mark.timeout(3_600)
async def test_what_200_of_100000_members_are_shown_is_what_a_recount_finds(settings: Settings) -> None:
    await play(settings, members=100_000, watched=200, acts=15_000)
