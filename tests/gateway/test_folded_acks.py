from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, cast

import pytest

from tidings.bounds import ACKS_MAX, ACKS_PER_SLOT
from tidings.errors import Conflict
from tidings.gateway import folded_acks
from tidings.gateway.folded_acks import (
    CONVERSATIONS_MAX,
    FoldedAcks,
    Gathering,
    ReadMoment,
    ReadMoments,
    add_mark,
    is_plain_read,
    take_reads,
)
from tidings.messaging.unread.bounds import READS_PAUSE_S, READS_PAUSE_S_MAX
from tidings.messaging.unread.read_together import Reading
from tidings.protocol.client_frames import Delivered, Read


def test_watermarks_fold_to_the_highest_and_every_id_is_kept() -> None:
    acks = FoldedAcks()
    acks.add(Delivered(acks={"c1": 7}))
    acks.add(Delivered(id=1, acks={"c1": 5, "c2": 3}))
    acks.add(Delivered(id=2, acks={"c1": 9}))
    assert acks and acks.take() == ({"c1": 9, "c2": 3}, [None, 1, 2])
    assert not acks and acks.take() == ({}, [])


def test_every_frame_and_every_conversation_costs_something() -> None:
    acks = FoldedAcks()
    acks.add(Delivered(acks={"c1": 7}))
    first = acks.take()
    assert first.cost == 1 and first.left_over == ACKS_PER_SLOT - 2
    acks.add(Delivered(acks={f"c{n}": 7 for n in range(ACKS_MAX)}))
    assert acks.take().cost == ACKS_MAX // ACKS_PER_SLOT + 1
    for _ in range(1_000):
        acks.add(Delivered(acks={"c1": 7}))
    assert acks.take().cost == 1_000 // ACKS_PER_SLOT + 1


def test_a_frame_that_acknowledges_nothing_is_answered_too() -> None:
    acks = FoldedAcks()
    acks.add(Delivered(id=3, acks={}))
    assert acks and acks.take() == ({}, [3])


class Device(NamedTuple):
    number: int
    user_id: str


def _server_of(user_id: str) -> str:
    """Each user is on a server of the own, but alice and bob, who share one."""
    return "a" if user_id == "bob" else user_id[0]


class Moments:
    """Read moments, and what was carried out in each. Pauses end when the test says so."""

    def __init__(self) -> None:
        self.taken: list[list[int]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._moments = ReadMoments(self._read, self._run, _server_of)

    def join(self, connection: int, conversation_id: str, user_id: str = "alice") -> None:
        self._moments.join(cast(Any, Device(connection, user_id)), conversation_id)

    async def turn(self, count: int = 1) -> None:
        """Wait until so many moments have begun."""
        async with asyncio.timeout(120):
            while len(self.taken) < count:
                await asyncio.sleep(0)

    async def rest(self, conversation_id: str) -> None:
        """Wait until the pause of the conversation is over and nobody has come."""
        async with asyncio.timeout(120):
            while conversation_id in self._moments._waiting:
                await asyncio.sleep(0)

    async def _read(self, connections: Sequence[Any]) -> None:
        self.taken.append([connection.number for connection in connections])

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.add(asyncio.ensure_future(work))


class Reader:
    """A connection whose marks wait, and what it was answered."""

    connection_id = "x"

    def __init__(self, user_id: str, *conversation_ids: str) -> None:
        self.user_id = user_id
        self.reads = [[Read(id=n, conversation_id=id_, up_to_seq=n)] for n, id_ in enumerate(conversation_ids, 1)]
        self.answers: list[list[tuple[int | None, object]]] = []

    def take_reads(self) -> list[list[Read]]:
        return self.reads


def moment_of(*readers: Reader) -> ReadMoment:
    def answer(reader: Any, outcomes: Sequence[tuple[list[Read], object]]) -> None:
        reader.answers.append([(read.id, outcome) for reads, outcome in outcomes for read in reads])

    return ReadMoment(cast(Any, readers), answer)


def end(moment: ReadMoment, *readings: Reading) -> None:
    for one in readings:
        one.outcome = Conflict(one.conversation_id)
    moment.ended(readings)


def said(reader: Reader) -> list[list[tuple[int | None, str]]]:
    return [[(id_, str(outcome)) for id_, outcome in answer] for answer in reader.answers]


def test_a_connection_is_answered_once_when_all_its_marks_have_an_outcome() -> None:
    alice, bob, over = Reader("alice", "c1", "c2", "c1"), Reader("bob", "c1"), Reader("carol", "c1", "c2")
    moment = moment_of(alice, bob, over)
    assert moment.wanted == [("alice", 3), ("bob", 1), ("carol", 2)]
    first, second, of_bob = moment.admit([(3, None), (1, None), (0, Conflict("over"))])
    assert (first.up_to_seq, said(alice), said(bob)) == (3, [], [])
    assert said(over) == [[(1, "over"), (2, "over")]]  # it waits for nobody
    end(moment, first, of_bob)
    assert (said(alice), said(bob)) == ([], [[(1, "c1")]])
    end(moment, second)
    assert said(alice) == [[(1, "c1"), (2, "c2"), (3, "c1")]]
    moment.fail(Conflict("late"))
    assert [len(reader.answers) for reader in (alice, bob, over)] == [1, 1, 1]


def test_two_devices_of_one_member_share_a_mark_and_both_are_answered() -> None:
    phone, laptop = Reader("alice", "c1"), Reader("alice", "c1", "c2")
    moment = moment_of(phone, laptop)
    shared, other = moment.admit([(1, None), (1, Conflict("over"))]), laptop.reads[1][0].id
    end(moment, *shared)
    assert said(phone) == [[(1, "c1")]] and said(laptop) == [[(1, "c1"), (other, "over")]]


def test_an_error_in_the_middle_is_the_answer_of_those_who_have_none() -> None:
    alice, bob = Reader("alice", "c1"), Reader("bob", "c1", "c2")
    moment = moment_of(alice, bob)
    of_alice, *of_bob = moment.admit([(1, None), (2, None)])
    end(moment, of_alice, of_bob[0])
    moment.fail(Conflict("broken"))
    end(moment, *of_bob)  # what was under way ends too late
    assert said(alice) == [[(1, "c1")]] and said(bob) == [[(1, "broken"), (2, "broken")]]


@pytest.fixture
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded_acks, "READS_PAUSE_S", 600)
    monkeypatch.setattr(folded_acks, "READS_PAUSE_S_MAX", 600)


async def test_read_marks_of_one_moment_are_carried_out_together_and_the_next_gather_meanwhile() -> None:
    moments = Moments()
    moments.join(1, "crowd")
    moments.join(2, "crowd")
    await moments.turn()
    moments.join(3, "crowd")
    moments.join(4, "crowd")
    assert moments.taken == [[1, 2]]  # the others come after a pause
    await moments.turn(2)
    assert moments.taken == [[1, 2], [3, 4]]


@pytest.mark.usefixtures("long_pauses")
async def test_the_pause_of_one_conversation_holds_up_no_other() -> None:
    moments = Moments()
    moments.join(1, "crowd")
    await moments.turn()
    moments.join(2, "crowd")
    moments.join(3, "pair")
    moments.join(4, "two")
    await moments.turn(2)
    assert moments.taken == [[1], [3, 4]]  # conversations of one turn go on together


def pauses_s(*counts: int) -> list[float]:
    """The pauses after moments with so many marks."""
    found, gathering = list[float](), Gathering()
    for count in counts:
        gathering.connections += [cast(Any, None)] * count
        gathering = gathering.after()
        found.append(gathering.pause_s)
    return found


def test_marks_gather_the_longer_the_more_came_up_to_a_bound() -> None:
    assert pauses_s(40, 40, 500) == [40 * READS_PAUSE_S, 60 * READS_PAUSE_S, READS_PAUSE_S_MAX]
    one_by_one = pauses_s(1, 1, 1, 2, 2, 3, 4, 5, 6, 8)
    assert one_by_one == sorted(one_by_one) and one_by_one[-1] > 10 * READS_PAUSE_S


def test_one_reader_alone_hardly_waits() -> None:
    assert max(pauses_s(*[1] * 100)) <= 2 * READS_PAUSE_S


@pytest.mark.usefixtures("long_pauses")
async def test_those_whose_budgets_are_on_one_server_go_on_together_and_apart_from_others() -> None:
    moments = Moments()
    for number, user_id in enumerate(("alice", "carol", "bob", "dora", "alice")):
        moments.join(number, "crowd", user_id)
    await moments.turn(3)
    assert moments.taken == [[0, 2, 4], [1], [3]]


async def test_after_a_quiet_pause_the_first_mark_goes_at_once() -> None:
    moments = Moments()
    moments.join(1, "crowd")
    await moments.turn()
    await moments.rest("crowd")
    moments.join(2, "crowd")
    await moments.turn(2)
    assert moments.taken == [[1], [2]]


def test_a_read_of_single_messages_of_a_thread_or_by_time_is_carried_out_alone() -> None:
    plain = Read(conversation_id="c1", up_to_seq=3)
    odd = Read(conversation_id="c1", up_to_seq=3, thread_seq=1)
    assert not is_plain_read(odd) and not is_plain_read(Read(conversation_id="c1", seqs=[1]))
    assert not is_plain_read(Read(conversation_id="c1", up_to_ts=1)) and not is_plain_read(Delivered(acks={}))
    other, marks = Read(conversation_id="c2", up_to_seq=3), None
    for frame in (plain, plain, other, plain, odd, plain):
        marks = add_mark(marks, frame)
    assert marks is not None and take_reads(marks) == [[plain, plain], [other], [plain]]
    assert list(marks) == [odd, [plain]]


def test_a_batch_is_bounded_and_the_frames_beyond_it_are_in_the_next() -> None:
    acks = FoldedAcks()
    for n in range(CONVERSATIONS_MAX):
        acks.add(Delivered(acks={f"c{n}": 1}))
    acks.add(Delivered(id=1, acks={"one-more": 1, "c0": 2}))
    assert len(acks.take().seqs) == CONVERSATIONS_MAX
    assert acks and acks.take() == ({"one-more": 1, "c0": 2}, [1]) and not acks
