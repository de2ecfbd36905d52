"""Unread of threads is exact: whatever is retried, reordered, flushed or lost, on both nodes, against a plain model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.messaging.unread import test_unread as conversations
from tests.support.messaging.faulty_stores import Device, FaultyNode, request_lost
from tests.support.messaging.thread_model import Place, ThreadLedger
from tests.support.messaging.warm_index_checks import say
from tidings.errors import BadRequest, NotFound, Unavailable
from tidings.messaging.reactions import reactions
from tidings.messaging.reading.inbox import FILTERS
from tidings.messaging.threads.records import thread_id
from tidings.model import Content, ReadState
from tidings.node.graph import Core
from tidings.pushes import ReadSynced
from tidings_proof.world.valkey import start_valkey

USERS = conversations.USERS


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server of this module's own: it is flushed all the time."""
    ThreadMachine.server = start_valkey(tmp_path_factory.mktemp("u"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reactions, "REACTIONS_GATHER_S", 0)
        yield
    ThreadMachine.server.stop()


class ThreadMachine(conversations.UnreadMachine):
    """Everything that happens to conversations, with replies, follows and reads of threads among it."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger: ThreadLedger = ThreadLedger(cap=self.cap, is_delivered_seen=self.policy == "when_offline")

    async def _check_user(self, core: Core, user_id: str) -> None:
        await super()._check_user(core, user_id)
        for name in ("all", "unread"):
            expected = self.ledger.threads(user_id, is_unread=name == "unread")
            assert await self._listed(core, user_id, name) == expected, name
        for place in self.ledger.followed(user_id):
            assert await core.threading.unread.state(user_id, thread_id(*place)) == self.ledger.thread_state(
                place, user_id
            )
        await self._check_roots(core, user_id)

    async def _listed(self, core: Core, user_id: str, name: Any) -> list[tuple[Any, ...]]:
        """All pages of the list, two rows at a time. Each says how many threads are unread."""
        found, cursor = list[tuple[Any, ...]](), None
        while True:
            page = await core.threads.page(user_id, limit=2, cursor=cursor, filter_name=name)
            assert page.unread_threads == self.ledger.totals(user_id).unread_threads
            for one in page.items:
                thread = (one.thread.replies, one.thread.last_seq)
                found.append((one.conversation_id, one.thread_seq, *thread, one.unread_count, one.first_unread_seq))
            if (cursor := page.next_cursor) is None:
                return found

    async def _check_roots(self, core: Core, user_id: str) -> None:
        """The newest page of each conversation shows at every root what the list shows."""
        for id_, room in self.ledger.rooms.items():
            if user_id not in room.seats:
                continue
            page = await core.history.page(user_id, id_, limit=100)
            shown = {seq: one.thread for seq, one in page.beside.items() if one.thread is not None}
            for entry in page.entries:
                one = page.beside.get(entry.seq_no)
                counts = {key: (of.count, of.mine) for key, of in one.reactions.items()} if one is not None else {}
                found = counts, one is not None and one.is_pinned
                if entry.kind == "message" and not entry.is_deleted:
                    assert found == self.ledger.beside((id_, entry.seq_no), user_id)
            for place, followers in self.ledger.followers.items():
                roots = [entry for entry in page.entries if entry.seq_no == place[1] and not entry.is_deleted]
                if place[0] == id_ and roots and self.ledger.replies(place):
                    thread = shown.pop(place[1])
                    is_following = user_id in followers
                    unread = len(self.ledger.unread_replies(place, user_id)) if is_following else 0
                    assert (thread.following, thread.unread_count) == (is_following, min(unread, self.cap))
                    assert thread.replies == sum(not said.is_deleted for said in self.ledger.replies(place))
            assert shown == {}

    # --- what happens -------------------------------------------------------------------------------

    @rule(
        data=st.data(),
        named=st.lists(st.sampled_from(USERS), max_size=2, unique=True).map(tuple),
        silent=st.sampled_from((False, False, True)),
        also_here=st.booleans(),
        count=st.integers(1, 3),
    )
    def reply(self, data: st.DataObject, named: tuple[str, ...], silent: bool, also_here: bool, count: int) -> None:
        core, id_, user_id = self._pick(data)
        if roots := self._roots(id_, user_id):
            root = data.draw(st.sampled_from(roots))
            said = Content(mentions=named, silent=silent, also_here=also_here, thread_seq=root)
            self.run(self._send(core, id_, user_id, [said] * count))

    def _roots(self, id_: str, user_id: str) -> list[int]:
        """Messages that the user may answer in a thread: a deleted one only where there is a thread already."""
        room = self.ledger.rooms[id_]
        return [
            said.seq_no
            for said in room.written
            if said.thread_seq is None and said.seq_no > room.start(user_id)
            if not said.is_deleted or self.ledger.replies((id_, said.seq_no))
        ]

    @rule(data=st.data(), key=st.sampled_from(("+1", "joy")), is_on=st.sampled_from((True, True, False)))
    def react(self, data: st.DataObject, key: str, is_on: bool) -> None:
        """Several members at once. It counts for nobody."""
        core, id_, user_id = self._pick(data)
        if (place := self._pick_message(data, id_, user_id)) is not None:
            others = data.draw(st.lists(st.sampled_from(sorted(self.ledger.rooms[id_].seats)), unique=True))
            users = {user_id, *(one for one in others if place[1] > self.ledger.rooms[id_].start(one))}
            users = {one for one in users if not self.ledger.is_refused(id_, one)}
            self.run(self._react(core, place, users, key, is_on=is_on))

    async def _react(self, core: Core, place: Place, users: set[str], key: str, *, is_on: bool) -> None:
        await asyncio.gather(*(core.reactions.react(one, *place, key, is_on=is_on) for one in sorted(users)))
        for one in users:
            self.ledger.react(place, one, key, is_on=is_on)
        await self._catch_up(place[0])

    @rule(data=st.data(), is_on=st.booleans())
    def pin(self, data: st.DataObject, is_on: bool) -> None:
        core, id_, user_id = self._pick(data)
        place = self._pick_message(data, id_, user_id)
        if place is not None and not self.ledger.is_refused(id_, user_id):
            self.run(core.pins.set(user_id, *place, is_on=is_on))
            self.ledger.pins = self.ledger.pins | {place} if is_on else self.ledger.pins - {place}
            self.run(self._catch_up(id_))

    def _pick_message(self, data: st.DataObject, id_: str, user_id: str) -> Place | None:
        """A message that the user sees."""
        room = self.ledger.rooms[id_]
        seqs = [said.seq_no for said in room.written if said.seq_no > room.start(user_id) and not said.is_deleted]
        return (id_, data.draw(st.sampled_from(seqs))) if seqs else None

    @rule(data=st.data(), is_on=st.booleans())
    def follow(self, data: st.DataObject, is_on: bool) -> None:
        core, id_, user_id = self._pick(data)
        if roots := self._roots(id_, user_id):
            place = id_, data.draw(st.sampled_from(roots))
            self.run(core.threads.follow(user_id, *place, is_on=is_on))
            self.ledger.follow(place, user_id, is_on=is_on)

    @rule(data=st.data())
    def read_thread(self, data: st.DataObject) -> None:
        if (picked := self._pick_followed(data)) is not None:
            core, place, user_id = picked
            seq_no = data.draw(st.integers(0, self.ledger.rooms[place[0]].head + 2))
            state = self.run(core.threads.mark_read(user_id, *place, up_to_seq=seq_no))
            self.ledger.read_replies(place, user_id, seq_no)
            assert state == self.ledger.thread_state(place, user_id)

    @rule(data=st.data())
    def read_these_replies(self, data: st.DataObject) -> None:
        if (picked := self._pick_followed(data)) is not None:
            core, place, user_id = picked
            seqs = data.draw(st.lists(st.integers(0, self.ledger.rooms[place[0]].head + 1), max_size=5))
            state = self.run(core.threads.mark_read(user_id, *place, seqs=seqs))
            self.ledger.read_single_replies(place, user_id, seqs)
            assert state == self.ledger.thread_state(place, user_id)

    @rule(data=st.data())
    def unread_thread(self, data: st.DataObject) -> None:
        if (picked := self._pick_followed(data)) is not None:
            core, place, user_id = picked
            seq_no = data.draw(st.integers(1, self.ledger.rooms[place[0]].head + 2))
            state = self.run(core.threads.mark_unread(user_id, *place, from_seq=seq_no))
            self.ledger.unread_replies_from(place, user_id, seq_no)
            assert state == self.ledger.thread_state(place, user_id)

    @rule(data=st.data())
    def read_all_threads(self, data: st.DataObject) -> None:
        core, id_, user_id = self._pick(data)
        self.run(core.threads.read_all(user_id, id_))
        for place in self.ledger.followed(user_id):
            if place[0] == id_ and self.ledger.unread_replies(place, user_id):
                self.ledger.read_replies(place, user_id, self.ledger.rooms[id_].head)

    @rule(user_id=st.sampled_from(USERS), what=st.sampled_from(("", "inbox", *FILTERS)))
    def lose_a_key_of_threads(self, user_id: str, what: str) -> None:
        keys = self.nodes[0].scripts.threads.keys
        names = {"": keys.mark(user_id), "inbox": keys.inbox(user_id)}
        self.run(say(self.nodes[0], b"DEL", names.get(what, keys.filter(user_id, what))))

    @rule(data=st.data())
    def lose_an_unread_set_of_a_thread(self, data: st.DataObject) -> None:
        if (picked := self._pick_followed(data)) is not None:
            core, place, user_id = picked
            self.run(say(core, b"PEXPIRE", core.keys.unread(user_id, thread_id(*place)), 0))

    def _pick_followed(self, data: st.DataObject) -> tuple[Core, Place, str] | None:
        core = self.nodes[data.draw(st.integers(0, 1))]
        pairs = [(place, user_id) for user_id in USERS for place in self.ledger.followed(user_id)]
        return (core, *data.draw(st.sampled_from(pairs))) if pairs else None


class CappedThreadMachine(ThreadMachine):
    cap = 3


class LargeThreadMachine(ThreadMachine):
    """Groups begin with three members, so most are large, and some cross the line."""

    members_large = 2


MACHINE = settings(conversations.MACHINE, max_examples=8)
ThreadMachine.TestCase.settings = CappedThreadMachine.TestCase.settings = MACHINE
LargeThreadMachine.TestCase.settings = MACHINE
TestThreads = ThreadMachine.TestCase
TestThreadsWithASmallCap = CappedThreadMachine.TestCase
TestThreadsOfLargeConversations = LargeThreadMachine.TestCase


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("machine", [ThreadMachine, CappedThreadMachine, LargeThreadMachine])
def test_unread_of_threads_stays_exact_for_long(machine: type[ThreadMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(MACHINE, max_examples=200, stateful_step_count=60))


# --- one node ---------------------------------------------------------------------------------------


async def begin(node: FaultyNode, group: str) -> None:
    """A root of alice, and two replies of bob."""
    await node.send("alice", group, "root")
    for name in ("r1", "r2"):
        await node.core.sends.send("bob", group, name, Content(name, thread_seq=1))


async def test_a_read_of_a_thread_is_pushed_to_the_other_devices_and_leaves_the_conversation_alone(
    a: FaultyNode, group: str
) -> None:
    await begin(a, group)
    await a.send("bob", group, "plain")
    phone, laptop = Device("alice", "1"), Device("alice", "2")
    await a.unread("alice")
    a.core.hub.attach(phone)
    a.core.hub.attach(laptop)
    state = await a.core.threads.mark_read("alice", group, 1, up_to_seq=2, origin="1")
    assert (state.unread_count, state.first_unread_seq, state.total_unread, state.unread_threads) == (1, 3, 1, 1)
    assert ReadSynced(state) in laptop.events and ReadSynced(state) not in phone.events
    assert (await a.core.unread.mark_read("alice", group, up_to_seq=99)).total_unread == 0
    assert (await a.core.unread.totals("alice")).unread_threads == 1


async def test_only_a_follower_has_counts_in_a_thread(a: FaultyNode, group: str) -> None:
    await begin(a, group)
    state = await a.core.threads.mark_read("carol", group, 1, up_to_seq=3)
    assert (state.unread_count, state.read_seq, state.unread_threads) == (0, 0, 0)
    with pytest.raises(BadRequest):
        await a.core.threads.mark_unread("carol", group, 1, from_seq=1)
    with pytest.raises(NotFound):
        await a.core.threads.mark_read("alice", group, 2, up_to_seq=3)
    with pytest.raises(NotFound):
        await a.core.threads.mark_read("mallory", group, 1, up_to_seq=3)


async def test_a_read_whose_index_did_not_follow_is_counted_from_the_tables(a: FaultyNode, group: str) -> None:
    await begin(a, group)
    await a.core.unread.totals("alice")
    a.keyspace.fail("unread_read", request_lost)
    with pytest.raises(Unavailable):
        await a.core.threads.mark_read("alice", group, 1, up_to_seq=3)
    again: ReadState = await a.core.threads.mark_read("alice", group, 1, up_to_seq=3)
    assert (again.unread_count, again.unread_threads) == (0, 0)
    assert await a.wrong() == []


async def test_two_devices_that_read_at_once_end_with_both_reads(a: FaultyNode, group: str) -> None:
    await begin(a, group)
    reads = [a.core.threads.mark_read("alice", group, 1, seqs=[seq]) for seq in (2, 3)]
    await asyncio.gather(*reads)
    assert (await a.core.unread.totals("alice")).unread_threads == 0
    assert await a.wrong() == []
