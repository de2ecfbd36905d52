"""Unread is exact: whatever is retried, repeated, reordered, flushed or lost, on both nodes, against a plain model."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.support.messaging.faulty_stores import (
    Device,
    Fault,
    FaultyNode,
    Gate,
    answer_lost,
    down,
    open_faulty,
    request_lost,
    throttled,
)
from tests.support.messaging.reference_model import Ledger, Room, Seat, seen
from tests.support.messaging.two_nodes import connect
from tests.support.messaging.warm_index_checks import check_set, check_warm, say
from tidings.bounds import READ_RANGES_MAX
from tidings.config import settings as config
from tidings.config.settings import Limits, Settings
from tidings.errors import BadRequest, Forbidden, NotFound, RateLimited, StoreError, TooLarge, Unavailable
from tidings.messaging.reading.flags import FlagChange
from tidings.messaging.reading.inbox import FILTERS
from tidings.messaging.reading.table_filters import Filter
from tidings.messaging.unread.rebuild import HOLD_MS
from tidings.model import Content, ContentPatch, ConversationKind, Entry, Totals
from tidings.node import graph
from tidings.node.graph import Core
from tidings.pushes import ReadSynced
from tidings.stores.keyspace.scripts.messaging import mentions_of
from tidings_proof.world.valkey import ValkeyProcess, start_valkey

USERS = ("ann", "ben", "cid", "dan")
# Shrinking is left out: it takes minutes, and the steps of a failure are few enough to read as they are.
MACHINE = settings(
    max_examples=10,
    stateful_step_count=40,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server of this module's own: it is flushed all the time."""
    UnreadMachine.server = start_valkey(tmp_path_factory.mktemp("u"))
    yield
    UnreadMachine.server.stop()


class UnreadMachine(RuleBasedStateMachine):
    """Two nodes, four users, a few conversations, and everything that can happen to them."""

    server: ClassVar[ValkeyProcess]
    cap: ClassVar[int] = 10_000
    policy: ClassVar[str] = "until_read"
    members_large: ClassVar[int] = 500

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.server.command("FLUSHALL")
        self.nodes = [self.run(self._open(node_id)) for node_id in ("a", "b")]
        self.ledger = Ledger(cap=self.cap, is_delivered_seen=self.policy == "when_offline")
        self.number = 0

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    async def _open(self, node_id: str) -> Core:
        folder = Path(self._folder.name)
        wanted = dataclasses.replace(
            Settings(),
            data=folder,
            keyspace=self.server.url,
            tables=f"sqlite://{folder}/tidings.db",
            limits=dataclasses.replace(Limits(), send=None),
            unread=config.Unread(cap=self.cap, policy=self.policy),
            node=config.Node(id=node_id),
            members_large=self.members_large,
        )
        return await self._stack.enter_async_context(graph.open_core(wanted))

    def teardown(self) -> None:
        try:
            self.run(self._check_end())
        finally:
            self.run(self._stack.aclose())
            self._runner.close()
            self._folder.cleanup()

    async def _check_end(self) -> None:
        """Run verify on the state that was left, then compare with what both nodes show."""
        assert (await self.nodes[0].verify.run(None, repair=False)).wrong == []
        for core in self.nodes:
            for user_id in USERS:
                await self._check_user(core, user_id)
        assert (await self.nodes[1].verify.run(None, repair=False)).wrong == []

    async def _check_user(self, core: Core, user_id: str) -> None:
        ledger = self.ledger
        assert await core.unread.totals(user_id) == ledger.totals(user_id)
        page = await core.inbox.page(user_id, limit=50, cursor=None)
        assert not page.is_stale
        assert seen(page) == ledger.page(user_id)
        assert page.totals == ledger.totals(user_id)
        for name in FILTERS:
            assert await self._filtered(core, user_id, name) == ledger.listed(user_id, name), name
        for id_ in ledger.shown(user_id):
            assert await core.unread.state(user_id, id_) == ledger.state(id_, user_id)
            await check_set(core, user_id, id_)
        assert await check_warm(core, user_id)

    async def _filtered(self, core: Core, user_id: str, name: Filter) -> list[str]:
        """All pages of a filter, two rows at a time."""
        found, cursor = list[str](), None
        while True:
            page = await core.inbox.page(user_id, limit=2, cursor=cursor, filter_name=name)
            found += [item.row.conversation_id for item in page.items]
            if (cursor := page.next_cursor) is None:
                return found

    @rule(data=st.data(), name=st.sampled_from(("muted", "pinned", "archived")), is_on=st.booleans())
    def flag(self, data: st.DataObject, name: str, is_on: bool) -> None:
        core, id_, user_id = self._pick(data)
        if id_ not in self.ledger.shown(user_id):
            return
        given: Any = {name: is_on}
        row = self.run(core.flags.set(user_id, id_, FlagChange(**given))).row
        self.ledger.flag(id_, user_id, name, is_on=is_on, pinned_ms=row.pinned_ms)
        assert row.archived == self.ledger.is_archived(id_, user_id)

    # --- conversations ------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        self.run(self._create("group", "ann", ["ben", "cid"]))
        self.run(self._create("direct", "ann", ["ben"]))

    async def _create(self, kind: ConversationKind, user_id: str, others: list[str]) -> None:
        view, is_new = await self.nodes[0].directory.create(user_id, kind=kind, members=others, is_server=True)
        if is_new:
            seats = {member.user_id: Seat(0, member.joined_ms) for member in view.members}
            if kind == "direct":
                seats[others[0]] = Seat(0, 0, is_hidden=True)
            self.ledger.rooms[view.head.conversation_id] = Room(kind, seats)

    @precondition(lambda self: len(self.ledger.rooms) < 5)
    @rule(kind=st.sampled_from(("direct", "group", "channel")), users=st.permutations(USERS))
    def create(self, kind: ConversationKind, users: list[str]) -> None:
        self.run(self._create(kind, users[0], users[1:2] if kind == "direct" else users[1:3]))

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        self.run(self._add(*self._pick_change(data, is_member=False)))

    async def _add(self, core: Core, id_: str | None, owner_id: str, user_id: str) -> None:
        if id_ is not None:
            await core.directory.add(owner_id, id_, [user_id], is_server=True)  # also those who left by themselves
            self.ledger.joined(id_, user_id, (await self._catch_up(id_))[-1])

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.run(self._leave(*self._pick_change(data, is_member=True), is_own=data.draw(st.booleans())))

    async def _leave(self, core: Core, id_: str | None, owner_id: str, user_id: str, *, is_own: bool) -> None:
        if id_ is not None:
            await core.directory.remove(user_id if is_own else owner_id, id_, user_id)
            await self._catch_up(id_)
            self.ledger.left(id_, user_id)

    def _pick_change(self, data: st.DataObject, *, is_member: bool) -> tuple[Core, str | None, str, str]:
        """Somebody who may come or go, and the owner of the conversation, who stays: the first of its seats."""
        core = self.nodes[data.draw(st.integers(0, 1))]
        pairs = [
            (id_, next(iter(room.seats)), user_id)
            for id_, room in self.ledger.rooms.items()
            for user_id in USERS
            if room.kind != "direct" and (user_id in room.seats) == is_member and user_id != next(iter(room.seats))
        ]
        return (core, *data.draw(st.sampled_from(pairs))) if pairs else (core, None, "", "")

    # --- entries ------------------------------------------------------------------------------------

    @rule(data=st.data(), count=st.integers(1, 4))
    def send(self, data: st.DataObject, count: int) -> None:
        core, id_, user_id = self._pick(data)
        self.run(self._send(core, id_, user_id, [Content()] * count))

    @rule(
        data=st.data(),
        named=st.lists(st.sampled_from(USERS), max_size=2, unique=True).map(tuple),
        mention=st.sampled_from((None, None, "all", "here")),
        silent=st.booleans(),
    )
    def send_more(self, data: st.DataObject, named: tuple[str, ...], mention: Any, silent: bool) -> None:
        core, id_, user_id = self._pick(data)
        contents = [Content(mentions=named, mention=mention, silent=silent), Content(mentions=named[:1])]
        self.run(self._send(core, id_, user_id, contents))

    async def _send(self, core: Core, id_: str, user_id: str, contents: list[Content]) -> None:
        self.number += len(contents)
        named = [(f"m{self.number - i}", content) for i, content in enumerate(contents)]
        sends = (core.sends.send(user_id, id_, one, msgspec.structs.replace(said, text=one)) for one, said in named)
        answers = await asyncio.gather(*sends, return_exceptions=True)
        refused = [one for one in answers if isinstance(one, BaseException)]
        assert all(isinstance(one, Forbidden) for one in refused), refused
        assert len(refused) == (len(answers) if self.ledger.is_refused(id_, user_id) else 0)
        await self._catch_up(id_)

    async def _catch_up(self, id_: str) -> list[Entry]:
        entries = await self._log(id_)
        for entry in entries:
            self.ledger.said(entry)
        return entries

    async def _log(self, id_: str) -> list[Entry]:
        entries: list[Entry] = await self.nodes[0].tables.log.page(
            id_, after=0, before=1 << 53, limit=10_000, newest_first=False
        )
        return entries

    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        core, id_, _ = self._pick(data)
        mine = [entry for entry in self.run(self._log(id_)) if entry.kind == "message" and not entry.is_deleted]
        mine = [entry for entry in mine if entry.sender_id in self.ledger.rooms[id_].seats and entry.rev == 0]
        mine = [entry for entry in mine if not self.ledger.is_refused(id_, entry.sender_id or "")]
        if mine:
            entry = data.draw(st.sampled_from(mine))
            sent = self.run(core.sends.send(entry.sender_id, id_, entry.message_id, entry.content))
            assert sent.is_duplicate and sent.entry.seq_no == entry.seq_no
            self.run(self._catch_up(id_))  # a number that was handed out for nothing is a void

    @rule(data=st.data(), is_edit=st.booleans())
    def rewrite(self, data: st.DataObject, is_edit: bool) -> None:
        core, id_, user_id = self._pick(data)
        start = self.ledger.rooms[id_].start(user_id)
        mine = [said for said in self.ledger.rooms[id_].written if said.sender_id == user_id and not said.is_deleted]
        mine = [said for said in mine if said.seq_no > start]
        if mine and not (is_edit and self.ledger.is_refused(id_, user_id)):
            seq_no = data.draw(st.sampled_from(mine)).seq_no
            rewrites = core.rewrites
            self.run(
                rewrites.edit(user_id, id_, seq_no, ContentPatch("new"))
                if is_edit
                else rewrites.delete(user_id, id_, seq_no)
            )
            self.run(self._catch_up(id_))

    @rule(data=st.data(), seed=st.integers(0, 1 << 30))
    def redeliver(self, data: st.DataObject, seed: int) -> None:
        """Any entries of the log again, in any order, in one batch or in many."""
        core, id_, _ = self._pick(data)
        self.run(self._redeliver(core, id_, random.Random(seed)))

    async def _redeliver(self, core: Core, id_: str, dice: random.Random) -> None:
        entries = await self._log(id_)
        again = dice.sample(entries, dice.randint(0, len(entries)))
        size = dice.randint(1, 10)
        for start in range(0, len(again), size):
            member_list = await core.access.load(id_)
            assert member_list is not None
            work = [(member_list, again[start : start + size])]
            await core.index.index(work, since=core.open_work.epoch_changes())

    # --- marks --------------------------------------------------------------------------------------

    @rule(data=st.data())
    def read_up_to(self, data: st.DataObject) -> None:
        core, id_, user_id = self._pick(data)
        seq_no = data.draw(st.integers(0, self.ledger.rooms[id_].head + 2))
        state = self.run(core.unread.mark_read(user_id, id_, up_to_seq=seq_no))
        self.ledger.read_up_to(id_, user_id, seq_no)
        assert state == self.ledger.state(id_, user_id)

    @rule(data=st.data(), late_ms=st.integers(-1, 1))
    def read_up_to_ts(self, data: st.DataObject, late_ms: int) -> None:
        core, id_, user_id = self._pick(data)
        times = [0, *(said.sent_ms for said in self.ledger.rooms[id_].log)]
        sent_ms = data.draw(st.sampled_from(times)) + late_ms
        state = self.run(core.unread.mark_read(user_id, id_, up_to_ts=sent_ms))
        self.ledger.read_up_to_ts(id_, user_id, sent_ms)
        assert state == self.ledger.state(id_, user_id)

    @rule(data=st.data())
    def read_these(self, data: st.DataObject) -> None:
        core, id_, user_id = self._pick(data)
        seqs = data.draw(st.lists(st.integers(0, self.ledger.rooms[id_].head + 1), max_size=5))
        state = self.run(core.unread.mark_read(user_id, id_, seqs=seqs))
        self.ledger.read_these(id_, user_id, seqs)
        assert state == self.ledger.state(id_, user_id)

    @rule(data=st.data())
    def mark_unread(self, data: st.DataObject) -> None:
        core, id_, user_id = self._pick(data)
        seq_no = data.draw(st.integers(1, self.ledger.rooms[id_].head + 2))
        state = self.run(core.unread.mark_unread(user_id, id_, from_seq=seq_no))
        self.ledger.unread_from(id_, user_id, seq_no)
        assert state == self.ledger.state(id_, user_id)

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        core, id_, user_id = self._pick(data)
        seq_no = data.draw(st.integers(1, self.ledger.rooms[id_].head + 2))
        self.run(self._deliver(core, id_, user_id, seq_no))
        self.ledger.delivered(id_, user_id, seq_no)

    async def _deliver(self, core: Core, id_: str, user_id: str, seq_no: int) -> None:
        core.receipts.delivered(user_id, {id_: seq_no})
        await core.receipts.flush()

    # --- people -------------------------------------------------------------------------------------

    @rule(data=st.data(), users=st.permutations(USERS), is_on=st.booleans())
    def block(self, data: st.DataObject, users: list[str], is_on: bool) -> None:
        core, pair = self.nodes[data.draw(st.integers(0, 1))], (users[0], users[1])
        self.run(core.blocks.block(*pair) if is_on else core.blocks.unblock(*pair))
        for node in self.nodes:
            self.run(node.blocks.refresh())  # each node does so within BLOCKS_READ_S
        self.ledger.blocks = self.ledger.blocks | {pair} if is_on else self.ledger.blocks - {pair}

    # --- losses -------------------------------------------------------------------------------------

    @rule()
    def lose_everything(self) -> None:
        self.run(say(self.nodes[0], b"FLUSHALL"))

    @rule(user_id=st.sampled_from(USERS), what=st.sampled_from(("", *FILTERS)))
    def lose_a_key_of_a_user(self, user_id: str, what: str) -> None:
        keys = self.nodes[0].keys
        self.run(say(self.nodes[0], b"DEL", f"{keys.inbox(user_id)}:{what}" if what else keys.mark(user_id)))
        if what == FILTERS[0]:
            self.run(say(self.nodes[0], b"DEL", keys.inbox(user_id)))

    @rule(data=st.data())
    def lose_an_unread_set(self, data: st.DataObject) -> None:
        core, id_, user_id = self._pick(data)
        key = core.keys.unread(user_id, id_)
        self.run(say(core, b"PEXPIRE", key if data.draw(st.booleans()) else mentions_of(key), 0))

    @rule(data=st.data(), user_id=st.sampled_from(USERS))
    def lose_a_field(self, data: st.DataObject, user_id: str) -> None:
        core = self.nodes[0]
        fields = sorted(self.run(say(core, b"HKEYS", core.keys.mark(user_id))))
        place = data.draw(st.integers(0, 19))
        if fields:
            self.run(say(core, b"HDEL", core.keys.mark(user_id), fields[place % len(fields)]))

    @rule(data=st.data())
    def lose_a_counter(self, data: st.DataObject) -> None:
        core, id_, _ = self._pick(data)
        self.run(say(core, b"DEL", core.keys.conv(id_)))

    # --- reads of the index --------------------------------------------------------------------------------------

    @rule(data=st.data(), user_id=st.sampled_from(USERS))
    def read_index(self, data: st.DataObject, user_id: str) -> None:
        self.run(self._check_user(self.nodes[data.draw(st.integers(0, 1))], user_id))

    @rule(data=st.data(), users=st.lists(st.sampled_from(USERS), min_size=2, max_size=6))
    def read_indexes_at_once(self, data: st.DataObject, users: list[str]) -> None:
        self.run(self._read_indexes_at_once(users))

    async def _read_indexes_at_once(self, users: list[str]) -> None:
        reads = [core.unread.totals(user_id) for user_id in users for core in self.nodes]
        expected = [self.ledger.totals(user_id) for user_id in users for _ in self.nodes]
        assert await asyncio.gather(*reads) == expected

    def _pick(self, data: st.DataObject) -> tuple[Core, str, str]:
        """A node, and a member of some conversation."""
        core = self.nodes[data.draw(st.integers(0, 1))]
        pairs = [(id_, user_id) for id_, room in self.ledger.rooms.items() for user_id in room.seats]
        return (core, *data.draw(st.sampled_from(pairs)))


class CappedMachine(UnreadMachine):
    cap = 5


class OfflineMachine(UnreadMachine):
    cap = 5
    policy = "when_offline"


UnreadMachine.TestCase.settings = CappedMachine.TestCase.settings = OfflineMachine.TestCase.settings = MACHINE
TestUnread = UnreadMachine.TestCase
TestUnreadWithASmallCap = CappedMachine.TestCase
TestUnreadWhenOffline = OfflineMachine.TestCase


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("machine", [UnreadMachine, CappedMachine, OfflineMachine])
def test_unread_stays_exact_for_long(machine: type[UnreadMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(MACHINE, max_examples=300, stateful_step_count=60))


# --- one node ---------------------------------------------------------------------------------------


async def test_too_many_single_reads_are_refused_and_leave_the_count_as_it_was(a: FaultyNode, direct: str) -> None:
    await asyncio.gather(*(a.send("alice", direct, f"m{i}") for i in range(140)))
    odd = list(range(2, 2 + 2 * READ_RANGES_MAX, 2))
    await a.core.unread.mark_read("bob", direct, seqs=odd)
    with pytest.raises(TooLarge):
        await a.core.unread.mark_read("bob", direct, seqs=[139])
    assert await a.unread("bob") == 140 - len(odd)
    assert await a.wrong() == []


async def test_a_seq_above_the_head_is_clamped_to_it(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    state = await a.core.unread.mark_read("bob", direct, up_to_seq=1 << 60)
    assert (state.read_seq, state.unread_count) == (1, 0)
    await a.send("alice", direct, "m2")
    assert await a.unread("bob") == 1


@pytest.mark.parametrize("given", [{}, {"up_to_seq": 1, "seqs": [1]}, {"up_to_ts": 1, "up_to_seq": 1}])
async def test_a_read_names_exactly_one_extent(a: FaultyNode, direct: str, given: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        await a.core.unread.mark_read("bob", direct, **given)


async def test_a_stranger_marks_nothing_and_leaves_no_marker(a: FaultyNode, direct: str) -> None:
    await a.unread("eve")
    for call in (
        a.core.unread.mark_read("eve", direct, up_to_seq=1),
        a.core.unread.mark_unread("eve", direct, from_seq=1),
    ):
        with pytest.raises(NotFound):
            await call
    assert await a.command("HGET", a.core.keys.mark("eve"), ":put") is None
    assert await a.core.tables.statuses.get("eve", [direct]) == {}


async def test_a_read_is_pushed_to_the_other_devices_and_not_to_the_one_that_read(a: FaultyNode, direct: str) -> None:
    phone, laptop = Device("bob", "1"), Device("bob", "2")
    await a.send("alice", direct, "m1")
    await a.send("alice", direct, "m2")
    await a.unread("bob")  # warm: nothing is pushed but the read itself
    a.core.hub.attach(phone)
    a.core.hub.attach(laptop)
    state = await a.core.unread.mark_read("bob", direct, up_to_seq=1, origin="1")
    assert state.unread_count == 1
    assert ReadSynced(state) in laptop.events and ReadSynced(state) not in phone.events


async def test_a_read_up_to_a_seq_moves_the_receipt_and_a_read_of_single_messages_does_not(
    a: FaultyNode, direct: str
) -> None:
    receipts: list[tuple[str, str, int]] = []
    a.core.events.read_up_to.add(lambda *receipt: receipts.append(receipt))
    await a.send("alice", direct, "m1")
    await a.core.unread.mark_read("bob", direct, seqs=[1])
    assert receipts == []
    await a.core.unread.mark_read("bob", direct, up_to_seq=1)  # the cursor is there already, the receipt is not
    assert receipts == [("bob", direct, 1)]
    await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    assert len(receipts) == 1
    assert (await a.core.tables.statuses.get("bob", [direct]))[direct].read_seq == 1


async def test_marking_unread_lowers_the_cursor_and_leaves_the_receipt(a: FaultyNode, direct: str) -> None:
    await asyncio.gather(*(a.send("alice", direct, f"m{i}") for i in range(4)))
    await a.core.unread.mark_read("bob", direct, up_to_seq=4)
    state = await a.core.unread.mark_unread("bob", direct, from_seq=3)
    assert (state.read_seq, state.unread_count, state.first_unread_seq) == (2, 2, 3)
    assert (await a.core.tables.statuses.get("bob", [direct]))[direct].read_seq == 4


async def test_a_mark_of_unread_is_paid_for_by_its_rows_before_anything_changes(a: FaultyNode, direct: str) -> None:
    await asyncio.gather(*(a.send("alice", direct, f"m{i}") for i in range(4)))
    await a.core.unread.mark_read("bob", direct, up_to_seq=4)
    asked: list[int] = []

    async def pay(rows: int) -> None:
        asked.append(rows)
        raise RateLimited(retry_after_ms=1)

    with pytest.raises(RateLimited):
        await a.core.unread.mark_unread("bob", direct, from_seq=1, pay=pay)
    assert asked == [3] and (await a.core.unread.state("bob", direct)).unread_count == 0
    assert await a.wrong() == []


async def test_ten_devices_reading_at_once_end_where_all_have_read(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await asyncio.gather(*(a.send("alice", direct, f"m{i}") for i in range(20)))
    reads = [node.core.unread.mark_read("bob", direct, seqs=[2 * i + 1]) for i in range(10) for node in (a, b)]
    await asyncio.gather(*reads)
    assert await a.unread("bob") == await b.unread("bob") == 10
    assert await a.wrong() == []


# --- when the keyspace does not follow ----------------------------------------------------------------


async def test_while_the_keyspace_is_down_a_read_is_refused_and_nothing_changes(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    a.keyspace.fail("unread_put", down)
    with pytest.raises(Unavailable):
        await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    assert await a.core.tables.statuses.get("bob", [direct]) == {}
    assert await a.unread("bob") == 1


@pytest.mark.parametrize("fault", [request_lost, answer_lost])
async def test_a_read_that_the_keyspace_missed_is_mended_by_repeating_it(
    a: FaultyNode, direct: str, fault: Fault
) -> None:
    await a.send("alice", direct, "m1")
    a.keyspace.fail("unread_read", fault)
    with pytest.raises(Unavailable):
        await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    state = await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    assert (state.read_seq, state.unread_count, state.total_unread) == (1, 0, 0)
    assert await a.wrong() == []


async def test_a_mark_unread_that_the_keyspace_missed_is_mended_by_repeating_it(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    a.keyspace.fail("unread_chill", request_lost)
    with pytest.raises(Unavailable):
        await a.core.unread.mark_unread("bob", direct, from_seq=1)
    assert (await a.core.unread.mark_unread("bob", direct, from_seq=1)).unread_count == 1
    assert await a.wrong() == []


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_node_that_dies_between_the_commit_and_the_keyspace_leaves_the_user_cold(
    a: FaultyNode, b: FaultyNode, direct: str, is_read: bool
) -> None:
    await a.send("alice", direct, "m1")
    await a.send("alice", direct, "m2")
    await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    a.keyspace.fail("unread_read" if is_read else "unread_chill", request_lost)
    with pytest.raises(Unavailable):  # as far as the stores can tell, node a is dead from here on
        if is_read:
            await a.core.unread.mark_read("bob", direct, up_to_seq=2)
        else:
            await a.core.unread.mark_unread("bob", direct, from_seq=1)
    await let_the_marker_expire(b, "bob")
    assert await b.unread("bob") == (0 if is_read else 2)
    assert await b.wrong() == []


async def let_the_marker_expire(node: FaultyNode, user_id: str) -> None:
    """As if HOLD_MS had passed."""
    marker = await node.command("HGET", node.core.keys.mark(user_id), ":put")
    assert marker is not None, "there is no marker"
    await node.command("HSET", node.core.keys.mark(user_id), ":put", "1:" + marker.decode().partition(":")[2])


async def test_a_read_leaves_no_marker_behind(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    await a.core.unread.mark_unread("bob", direct, from_seq=1)
    assert await a.command("HGET", a.core.keys.mark("bob"), ":put") is None


async def test_an_older_version_that_reaches_the_keyspace_late_changes_nothing(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    await asyncio.gather(*(a.send("alice", direct, f"m{i}") for i in range(3)))
    late = Gate()
    a.keyspace.fail("unread_read", late)
    first = asyncio.create_task(a.core.unread.mark_read("bob", direct, up_to_seq=1))
    await late.reached.wait()
    assert (await b.core.unread.mark_read("bob", direct, up_to_seq=3)).unread_count == 0
    late.opened.set()
    assert (await first).unread_count == 0
    assert await b.wrong() == []


# --- what counts ------------------------------------------------------------------------------------


async def test_own_messages_edits_and_member_changes_do_not_count(a: FaultyNode, group: str) -> None:
    await a.send("bob", group, "m1")
    await a.core.rewrites.edit("bob", group, 1, ContentPatch("better"))
    await a.core.directory.add("alice", group, ["dave"])
    assert [await a.unread(user_id) for user_id in ("alice", "bob", "carol", "dave")] == [1, 0, 1, 0]


async def test_a_deleted_message_does_not_count_even_if_its_set_was_lost(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.send("alice", direct, "m2")
    await a.command("DEL", a.core.keys.unread("bob", direct))
    await a.core.rewrites.delete("alice", direct, 1)
    assert await a.unread("bob") == 1
    assert (await a.core.unread.state("bob", direct)).first_unread_seq == 2


async def test_the_first_unread_is_known_above_the_cap(settings: Settings) -> None:
    capped = dataclasses.replace(settings, unread=config.Unread(cap=3))
    async with open_faulty(capped, "a") as a:
        view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
        id_ = view.head.conversation_id
        await a.unread("bob")
        for i in range(8):
            await a.send("alice", id_, f"m{i}")
        state = await a.core.unread.state("bob", id_)
        assert (state.unread_count, state.unread_capped, state.first_unread_seq) == (3, True, 1)
        state = await a.core.unread.mark_read("bob", id_, up_to_seq=4)
        assert (state.unread_count, state.unread_capped, state.first_unread_seq) == (3, True, 5)
        state = await a.core.unread.mark_read("bob", id_, up_to_seq=5)
        assert (state.unread_count, state.unread_capped, state.first_unread_seq) == (3, False, 6)


async def test_a_set_of_mentions_that_was_lost_is_noticed_when_a_mention_is_beyond_the_cap(settings: Settings) -> None:
    capped = dataclasses.replace(settings, unread=config.Unread(cap=3))
    async with open_faulty(capped, "a") as a:
        view, _ = await a.core.directory.create("alice", kind="group", members=["bob"])
        id_ = view.head.conversation_id
        await a.core.sends.send("alice", id_, "m0", Content("you", mentions=("bob",)))
        assert (await a.core.unread.totals("bob")).total_mentions == 1
        await a.command("PEXPIRE", mentions_of(a.core.keys.unread("bob", id_)), 0)
        for number in range(1, 4):
            await a.send("alice", id_, f"m{number}")
        assert await a.core.unread.totals("bob") == Totals(3, 1) and await a.wrong() == []


async def test_above_the_cap_mentions_count_among_the_newest_whatever_happens(
    settings: Settings,
) -> None:
    capped = dataclasses.replace(settings, unread=config.Unread(cap=3))
    async with open_faulty(capped, "a") as a:
        view, _ = await a.core.directory.create("alice", kind="group", members=["bob"])
        id_ = view.head.conversation_id
        first = (await a.core.sends.send("alice", id_, "m0", Content("you", mentions=("bob",)))).entry.seq_no
        for number in range(1, 6):
            mentions = ("bob",) if number % 2 else ()
            await a.core.sends.send("alice", id_, f"m{number}", Content("hi", mentions=mentions))

        async def mentions_of_bob() -> int:
            assert await a.wrong() == []
            shown = (await a.core.unread.state("bob", id_)).mention_count
            await a.command("DEL", a.core.keys.mark("bob"))
            assert (await a.core.unread.state("bob", id_)).mention_count == shown
            return shown

        assert await mentions_of_bob() == 2  # m3 and m5 of m3, m4, m5; m0 and m1 are older
        await a.core.unread.mark_read("bob", id_, seqs=[first + 4])
        assert await mentions_of_bob() == 2  # m3 and m5 of m2, m3, m5
        await a.core.rewrites.delete("alice", id_, first + 5)
        assert await mentions_of_bob() == 2  # m1 and m3 of m1, m2, m3
        await a.core.unread.mark_read("bob", id_, up_to_seq=first)
        assert await mentions_of_bob() == 2 and not (await a.core.unread.state("bob", id_)).unread_capped


async def test_what_was_delivered_does_not_count_under_when_offline(settings: Settings) -> None:
    offline = dataclasses.replace(settings, unread=config.Unread(policy="when_offline"))
    async with open_faulty(offline, "a") as a:
        view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
        id_ = view.head.conversation_id
        await a.send("alice", id_, "m1")
        await a.send("alice", id_, "m2")
        assert await a.unread("bob") == 2
        a.core.receipts.delivered("bob", {id_: 1})
        await a.core.receipts.flush()
        assert await a.unread("bob") == 1
        await a.command("DEL", a.core.keys.mark("bob"))
        assert await a.unread("bob") == 1


# --- settings, clocks and stores that refuse ---------------------------------------------------------


def fail_once(port: Any, name: str, fault: Fault) -> None:
    """The next call of this port meets the fault."""
    real = getattr(port, name)

    async def failing(*args: Any, **fields: Any) -> Any:
        delattr(port, name)
        return await fault(lambda: real(*args, **fields))

    setattr(port, name, failing)


async def test_times_that_go_back_leave_counts_and_read_marks_exact(a: FaultyNode, direct: str) -> None:
    """A number of a counter whose clock was ahead stands below a later number with an earlier time."""
    await a.send("alice", direct, "m1")
    await a.unread("bob")
    conv = a.core.keys.conv(direct)
    ahead_ms = int(await say(a.core, "HGET", conv, "at")) + 6_000
    await say(a.core, "HSET", conv, "at", ahead_ms)
    await a.send("alice", direct, "m2")
    await say(a.core, "HSET", conv, "at", ahead_ms - 6_000)
    await a.send("alice", direct, "m3")
    times = [entry.sent_ms for entry in await a.log(direct)]
    assert times[1] > times[2]
    state = await a.core.unread.mark_read("bob", direct, up_to_seq=2)
    assert (state.unread_count, state.first_unread_seq, state.total_unread) == (1, 3, 1)
    assert not await a.wrong()


@pytest.mark.parametrize(("before", "after"), [(100, 3), (3, 100)])
async def test_a_changed_cap_is_seen_in_the_counts_after_a_restart(settings: Settings, before: int, after: int) -> None:
    def capped(cap: int) -> Settings:
        return dataclasses.replace(settings, unread=config.Unread(cap=cap))

    async with open_faulty(capped(before), "a") as node:
        view, _ = await node.core.directory.create("alice", kind="direct", members=["bob"])
        conversation_id = view.head.conversation_id
        for number in range(5):
            await node.send("alice", conversation_id, f"m{number}")
        assert await node.unread("bob") == min(5, before)
    async with open_faulty(capped(after), "b") as node:
        state = await node.core.unread.state("bob", conversation_id)
        assert (state.unread_count, state.total_unread, state.unread_capped) == (min(5, after),) * 2 + (after < 5,)
        state = await node.core.unread.mark_read("bob", conversation_id, up_to_seq=5)
        assert (state.unread_count, state.total_unread) == (0, 0)
        assert not await node.wrong()


async def test_a_changed_policy_is_seen_in_the_counts_after_a_restart(settings: Settings) -> None:
    when_offline = dataclasses.replace(settings, unread=config.Unread(policy="when_offline"))
    async with open_faulty(when_offline, "a") as node:
        view, _ = await node.core.directory.create("alice", kind="direct", members=["bob"])
        conversation_id = view.head.conversation_id
        await node.send("alice", conversation_id, "m1")
        await node.unread("bob")
        node.core.receipts.delivered("bob", {conversation_id: 1})
        await node.core.receipts.flush()
        assert await node.unread("bob") == 0
    async with open_faulty(settings, "b") as node:
        assert await node.unread("bob") == 1 and not await node.wrong()


async def test_a_delivery_that_a_node_of_the_other_policy_takes_is_seen_in_the_counts(settings: Settings) -> None:
    when_offline = dataclasses.replace(settings, unread=config.Unread(policy="when_offline"))
    async with open_faulty(when_offline, "a") as a, open_faulty(settings, "b") as b:
        view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
        conversation_id = view.head.conversation_id
        await a.send("alice", conversation_id, "m1")
        assert await a.unread("bob") == 1
        b.core.receipts.delivered("bob", {conversation_id: 1})
        await b.core.receipts.flush()
        assert await a.unread("bob") == 0 and not await a.wrong()
        assert await b.unread("bob") == 1 and not await b.wrong()


async def test_receipts_leave_an_index_of_the_same_policy_as_it_is(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    assert await a.unread("bob") == 1
    before = await say(a.core, "HGETALL", a.core.keys.mark("bob"))
    a.core.receipts.delivered("bob", {direct: 1})
    await a.core.receipts.flush()
    assert await say(a.core, "HGETALL", a.core.keys.mark("bob")) == before


@pytest.mark.parametrize("fault", [throttled, down])
async def test_a_read_mark_that_wrote_nothing_makes_nobody_cold(a: FaultyNode, direct: str, fault: Fault) -> None:
    await a.send("alice", direct, "m1")
    await a.unread("bob")
    fail_once(a.tables.statuses, "put", fault)
    with pytest.raises(StoreError):
        await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    assert await say(a.core, "HGET", a.core.keys.mark("bob"), ":put") is None
    a.clock.elapsed_s += HOLD_MS / 1000 + 1
    rebuilds = sum(counter.value for counter in a.core.metrics.rebuilds.values())
    await a.core.unknown_outcomes.settle()
    assert await a.unread("bob") == 1
    assert sum(counter.value for counter in a.core.metrics.rebuilds.values()) == rebuilds


async def test_a_read_mark_without_an_answer_makes_its_conversation_cold_alone(a: FaultyNode, direct: str) -> None:
    others = [await a.core.directory.create("alice", kind="group", members=["bob"], name=str(n)) for n in range(3)]
    for id_ in (direct, *(view.head.conversation_id for view, _ in others)):
        await a.send("alice", id_, "m1")
    await a.unread("bob")
    fail_once(a.tables.statuses, "put", answer_lost)
    with pytest.raises(Unavailable):
        await a.core.unread.mark_read("bob", direct, up_to_seq=1)
    a.clock.elapsed_s += HOLD_MS / 1000 + 1
    inboxes = a.core.metrics.rebuilds["inbox"].value
    await a.core.unknown_outcomes.settle()
    assert await a.unread("bob") == 3
    assert a.core.metrics.rebuilds["inbox"].value == inboxes and not await a.wrong()


async def test_a_device_that_acknowledges_is_told_that_nothing_counts_when_offline(settings: Settings) -> None:
    when_offline = dataclasses.replace(settings, unread=config.Unread(policy="when_offline"))
    async with open_faulty(when_offline, "a") as node:
        view, _ = await node.core.directory.create("alice", kind="direct", members=["bob"])
        conversation_id = view.head.conversation_id
        await node.unread("bob")
        bob = await connect(node, "bob")
        await node.send("alice", conversation_id, "m1")
        await node.unread("bob")
        node.core.receipts.delivered("bob", {conversation_id: 1})
        await node.core.receipts.flush()
        states = [event.state for event in bob.events if isinstance(event, ReadSynced)]
        assert [(one.conversation_id, one.unread_count, one.total_unread) for one in states[-1:]] == [
            (conversation_id, 0, 0)
        ]


async def test_a_member_who_leaves_takes_no_receipts_of_others_along(settings: Settings) -> None:
    policy = config.Unread(policy="when_offline")
    async with open_faulty(dataclasses.replace(settings, members_large=2, unread=policy), "a") as node:
        view, _ = await node.core.directory.create("alice", kind="group", members=["bob", "carol"], name="large")
        id_ = view.head.conversation_id
        for user_id in ("alice", "bob", "carol"):
            await node.unread(user_id)
        carol = await connect(node, "carol")
        await node.send("alice", id_, "m1")
        assert [await node.unread(user_id) for user_id in ("bob", "carol")] == [1, 1]
        gate = Gate()
        node.keyspace.fail("unread_state", gate)
        answers: list[bool] = []
        for user_id in ("bob", "carol"):
            node.core.receipts.delivered(user_id, {id_: 1}, answers.append)
        flushing = asyncio.create_task(node.core.receipts.flush())
        await gate.reached.wait()  # the index has followed, and the new counts of bob are read
        await node.core.directory.remove("alice", id_, "bob")
        gate.opened.set()
        await flushing
        assert answers == [True, True]
        states = [event.state.unread_count for event in carol.events if isinstance(event, ReadSynced)]
        assert states[-1] == 0
