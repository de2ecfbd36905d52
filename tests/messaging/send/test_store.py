"""Store: exactly once in the log, whatever is lost, repeated or taken on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.messaging.drafts import draft, ids, member_change, numbered, target
from tests.support.messaging.faulty_stores import (
    After,
    Do,
    FaultyNode,
    Gate,
    answer_lost,
    code_of,
    down,
    request_lost,
    throttled,
    told,
)
from tidings.errors import Forbidden, IdConflict, NotFound, StoreUnavailable, Throttled
from tidings.messaging.send import store as storing
from tidings.messaging.send.store import to_group
from tidings.model import Content, ContentPatch, Entry, MemberChange, Role, Sent, digest_of
from tidings.stores.tables.records import Put, RecordKey, of_conversation
from tidings.stores.tables.values import Group, Known, Refused, Verdict


async def void(node: FaultyNode, conversation_id: str, seq_no: int) -> None:
    """As a reader would close a gap."""
    entry = Entry(conversation_id=conversation_id, seq_no=seq_no, kind="void", sent_ms=seq_no)
    assert await node.tables.log.append([Group(conversation_id=conversation_id, entries=(entry,))]) == [None]


# --- digests --------------------------------------------------------------------------------------


async def test_a_row_keeps_no_digest_that_can_be_tried_out(a: FaultyNode, direct: str) -> None:
    sent = await a.send("alice", direct, "m1", "1234")
    again = await a.send("alice", direct, "m2", "1234")
    assert sent.entry.digest != again.entry.digest, "equal texts look different"
    assert sent.entry.digest and digest_of(Content("1234")) not in sent.entry.digest
    assert await a.code("alice", direct, "m1", "1235") == "conflict"
    assert await a.code("alice", direct, "m1", "1234") == "duplicate"


async def test_a_row_of_an_earlier_version_still_tells_a_resend_from_a_conflict(a: FaultyNode, direct: str) -> None:
    old = Entry(
        conversation_id=direct,
        seq_no=1,
        kind="message",
        sent_ms=1,
        message_id="m1",
        sender_id="alice",
        content=Content("old"),
        digest=digest_of(Content("old")),
    )
    assert await a.tables.log.append([Group(conversation_id=direct, entries=(old,))]) == [None]
    assert await a.code("alice", direct, "m1", "new") == "conflict"
    assert await a.code("alice", direct, "m1", "old") == "duplicate"


# --- resends --------------------------------------------------------------------------------------


async def test_a_resend_answers_with_the_first_number(a: FaultyNode, direct: str) -> None:
    first = await a.send("alice", direct, "m1")
    await a.send("alice", direct, "m2")
    again = await a.send("alice", direct, "m1")
    assert (again.entry, again.is_duplicate) == (first.entry, True)
    assert len(await a.log(direct)) == 2 and await a.unread("bob") == 2


async def test_a_resend_to_another_node_answers_with_the_first_number(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    first = await a.send("alice", direct, "m1")
    again = await b.send("alice", direct, "m1")
    assert (again.entry, again.is_duplicate) == (first.entry, True)
    assert await b.unread("bob") == 1 and await b.wrong() == []


async def test_before_a_resend_is_answered_the_head_is_raised_for_whoever_died_before_it(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await a.send("alice", direct, "m1")
    raised: list[Entry] = []

    async def catch_up(conversation_id: str, entries: Sequence[Entry]) -> None:
        raised.extend(entries)

    monkeypatch.setattr(a.tables.log, "catch_up", catch_up, raising=False)
    assert await a.code("alice", direct, "m1") == "duplicate"
    assert raised == [first.entry]


async def test_the_same_id_at_once_on_two_nodes_is_stored_once(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    answers = await asyncio.gather(*(node.submit("alice", direct, f"m{i}") for i in range(100) for node in (a, b)))
    codes = [code_of(answer) for answer in answers]
    assert (codes.count("stored"), codes.count("duplicate")) == (100, 100)
    seqs = {answer.entry.seq_no for answer in answers if isinstance(answer, Sent)}
    assert len(seqs) == 100
    assert len([entry for entry in await a.log(direct) if entry.kind == "message"]) == 100
    assert await a.unread("bob") == 100 and await a.wrong() == []


async def test_who_had_a_number_first_and_stores_second_is_answered_as_a_duplicate(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    gate = Gate()
    a.faulty_log.faults.append(gate)
    mine = a.submit("alice", direct, "m1")  # has its number, and is slow to store
    await gate.reached.wait()
    assert await b.code("alice", direct, "m1") == "stored"  # under the very number
    gate.opened.set()
    assert code_of(await mine) == "duplicate"
    assert len(await a.log(direct)) == 1 and await a.unread("bob") == 1


async def test_the_same_id_with_another_text_is_a_conflict(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "one")
    assert await a.code("alice", direct, "m1", "two") == "conflict"
    assert await b.code("alice", direct, "m1", "two") == "conflict"
    assert await b.code("bob", direct, "m1", "two") == "stored"  # an id is of its sender
    assert [entry.text for entry in await a.log(direct)] == ["one", "two"]


async def test_the_same_id_with_another_text_at_once_on_two_nodes_is_a_conflict_for_one(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    gate = Gate()
    a.faulty_log.faults.append(gate)
    mine = a.submit("alice", direct, "m1", "one")  # has its number, and is slow to store
    await gate.reached.wait()
    assert await b.code("alice", direct, "m1", "two") == "stored"  # under the very number
    gate.opened.set()
    assert code_of(await mine) == "conflict"
    assert [(entry.seq_no, entry.text) for entry in await a.log(direct)] == [(1, "two")]


async def test_a_resend_is_known_when_the_keyspace_has_forgotten_it(a: FaultyNode, direct: str) -> None:
    first = await a.send("alice", direct, "m1")
    a.clock.ahead_ms += 3_600_000  # generations later
    again = await a.send("alice", direct, "m1")
    assert (again.entry.seq_no, again.is_duplicate) == (first.entry.seq_no, True)
    assert told(await a.log(direct)) == [(1, "message", "m1"), (2, "void", None)]
    for _ in range(3):
        assert (await a.send("alice", direct, "m1")).entry.seq_no == 1
    assert len(await a.log(direct)) == 2, "the note was set right: no more numbers are used up"


async def test_late_resends_in_one_batch_with_new_messages_keep_their_places(a: FaultyNode, direct: str) -> None:
    for i in range(3):
        await a.send("alice", direct, f"m{i}")
    a.clock.ahead_ms += 3_600_000
    ids = ["m0", "new1", "m2", "new2"]
    answers = await asyncio.gather(*(a.submit("alice", direct, id_, origin="socket") for id_ in ids))
    assert [code_of(answer) for answer in answers] == ["duplicate", "stored", "duplicate", "stored"]
    assert told(await a.log(direct))[3:] == [
        (4, "void", None),
        (5, "message", "new1"),
        (6, "void", None),
        (7, "message", "new2"),
    ]


# --- a crash between two stages -------------------------------------------------------------------


async def test_a_number_handed_out_but_not_stored_is_used_by_the_resend(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    a.faulty_log.faults.append(down)
    assert await a.code("alice", direct, "m1") == "unavailable"
    first = await b.send("alice", direct, "m1")
    assert (first.entry.seq_no, first.is_duplicate) == (1, False)
    assert await b.unread("bob") == 1 and await b.wrong() == []


async def test_a_number_whose_answer_was_lost_is_used_by_the_resend(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m0")
    a.keyspace.fail("conversation_number", answer_lost)
    assert await a.code("alice", direct, "m1") == "unavailable"
    assert (await b.send("alice", direct, "m1")).entry.seq_no == 2
    assert await b.unread("bob") == 2 and await b.wrong() == []


async def test_what_is_stored_but_not_indexed_is_counted_by_the_resend(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    a.keyspace.fail("inbox_index", request_lost)
    assert await a.code("alice", direct, "m1") == "unavailable"
    again = await b.send("alice", direct, "m1")
    assert (again.entry.seq_no, again.is_duplicate) == (1, True)
    assert await b.unread("bob") == 1 and await b.wrong() == []


async def test_what_is_indexed_but_not_acknowledged_is_counted_once(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    a.keyspace.fail("inbox_index", answer_lost)
    assert await a.code("alice", direct, "m1") == "unavailable"
    again = await b.send("alice", direct, "m1")
    assert (again.entry.seq_no, again.is_duplicate) == (1, True)
    assert await b.unread("bob") == 1 and await b.wrong() == []


async def test_an_id_whose_slot_was_voided_gets_a_new_number(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.append(down)
    assert await a.code("alice", direct, "m1") == "unavailable"
    await void(b, direct, 1)
    first = await b.send("alice", direct, "m1")
    assert (first.entry.seq_no, first.is_duplicate) == (2, False)
    assert (await a.send("alice", direct, "m1")).entry.seq_no == 2
    assert told(await b.log(direct)) == [(1, "void", None), (2, "message", "m1")]


async def test_what_came_after_an_id_whose_slot_was_voided_stays_after_it(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.append(down)
    codes = await asyncio.gather(*(a.submit("alice", direct, id_, origin="socket") for id_ in ("m1", "m2")))
    assert [code_of(answer) for answer in codes] == ["unavailable"] * 2
    await void(a, direct, 1)  # slot 2 is still open, and noted for m2
    ids = ["m1", "m2", "m3"]
    answers = await asyncio.gather(*(a.submit("alice", direct, id_, origin="socket") for id_ in ids))
    assert [code_of(answer) for answer in answers] == ["stored"] * 3
    log = await a.log(direct)
    assert [entry.message_id for entry in log if entry.kind == "message"] == ids
    assert [entry.seq_no for entry in log] == list(range(1, len(log) + 1))


async def test_what_waits_behind_an_id_that_got_another_number_stays_after_it(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.append(down)
    await asyncio.gather(*(a.submit("alice", direct, id_, origin="socket") for id_ in ("m1", "m2")))
    await void(a, direct, 1)
    a.faulty_log.faults.append(down)  # m1 is sent again alone: it gets number 3, and 2 is still noted for m2
    assert await a.code("alice", direct, "m1") == "unavailable"
    answers = await asyncio.gather(*(a.submit("alice", direct, id_, origin="socket") for id_ in ("m1", "m2")))
    assert [code_of(answer) for answer in answers] == ["stored"] * 2
    log = await a.log(direct)
    assert [entry.message_id for entry in log if entry.kind == "message"] == ["m1", "m2"]
    assert [entry.seq_no for entry in log] == list(range(1, len(log) + 1))


async def test_what_is_sent_again_after_an_earlier_message_was_stored_stays_after_it(
    a: FaultyNode, direct: str
) -> None:
    a.faulty_log.faults.append(down)
    await asyncio.gather(*(a.submit("alice", direct, id_, origin="socket") for id_ in ("m1", "m2")))
    await void(a, direct, 1)  # m1 is sent again alone and stored as 3; 2 is still noted for m2
    assert (await a.send("alice", direct, "m1")).entry.seq_no == 3
    assert (await a.send("alice", direct, "m2")).entry.seq_no == 4
    assert [entry.message_id for entry in await a.log(direct) if entry.kind == "message"] == ["m1", "m2"]


async def test_a_slow_writer_who_lost_its_slot_takes_another(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    gate = Gate()
    a.faulty_log.faults.append(gate)
    slow = a.submit("alice", direct, "m1")
    await gate.reached.wait()
    await void(b, direct, 1)
    gate.opened.set()
    answer = await slow
    assert isinstance(answer, Sent) and answer.entry.seq_no == 2 and not answer.is_duplicate
    assert (await b.send("alice", direct, "m1")).entry.seq_no == 2


# --- commits without an answer --------------------------------------------------------------------


async def test_an_ambiguous_commit_that_happened_is_stored_once(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.append(answer_lost)
    answers = await asyncio.gather(*(a.submit("alice", direct, f"m{i}") for i in range(3)))
    assert [code_of(answer) for answer in answers] == ["stored"] * 3
    assert told(await a.log(direct)) == [(1 + i, "message", f"m{i}") for i in range(3)]
    assert await a.unread("bob") == 3 and await a.wrong() == []


async def test_an_ambiguous_commit_that_did_not_happen_is_stored_once(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.extend([request_lost, throttled, request_lost])
    assert await a.code("alice", direct, "m1") == "stored"
    assert told(await a.log(direct)) == [(1, "message", "m1")]
    assert [groups[0].entries[0].seq_no for groups in a.faulty_log.appends] == [1] * 4, "never another number meanwhile"


async def test_a_commit_that_stays_ambiguous_is_refused_and_found_by_the_resend(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "STORE_DEADLINE_S", 0.12)
    a.faulty_log.faults.extend([answer_lost, *[request_lost] * 20])
    assert await a.code("alice", direct, "m1") == "unavailable"
    a.faulty_log.faults.clear()
    again = await a.send("alice", direct, "m1")
    assert (again.entry.seq_no, again.is_duplicate) == (1, True)
    assert await a.unread("bob") == 1


class ThrottledGroup:
    """The tables of a busy store: they store every group but those of one conversation."""

    def __init__(self, log: Any, conversation_id: str) -> None:
        self._append, self._id = log.append, conversation_id
        self.asked: list[list[str]] = []

    async def __call__(self, groups: Sequence[Group]) -> list[Any]:
        self.asked.append([group.conversation_id for group in groups])
        answers: list[Any] = [
            Throttled("busy") if group.conversation_id == self._id else (await self._append([group]))[0]
            for group in groups
        ]
        if all(isinstance(answer, Throttled) for answer in answers):
            raise answers[0]
        return answers


async def test_a_throttled_conversation_does_not_refuse_the_others_of_its_batch(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "STORE_SHARED_S", 0.0)
    monkeypatch.setattr(a.core.sends, "_lane_of", lambda conversation_id: a.core.sends._lanes[0])
    hot = (await a.core.directory.create("alice", kind="group", members=["carol"], name="hot"))[0].head.conversation_id
    busy = ThrottledGroup(a.faulty_log, hot)
    monkeypatch.setattr(a.faulty_log, "append", busy)
    answers = await asyncio.gather(a.submit("alice", hot, "m1"), a.submit("alice", direct, "m1"))
    assert [code_of(answer) for answer in answers] == ["unavailable", "stored"]
    assert told(await a.log(direct)) == [(1, "message", "m1")]
    assert await a.unread("bob") == 1
    assert busy.asked[0] == [hot, direct] and all(asked == [hot] for asked in busy.asked[1:])


async def test_a_commit_that_comes_late_is_not_repeated(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    after = After()
    a.faulty_log.faults.append(after)
    slow = a.submit("alice", direct, "m1")
    await after.reached.wait()
    assert (await b.send("alice", direct, "m1")).is_duplicate
    after.opened.set()
    assert code_of(await slow) == "stored"
    assert await b.unread("bob") == 1 and await b.wrong() == []


async def test_a_first_send_of_which_a_part_was_stored_before_the_rest_was_refused_is_no_duplicate(
    a: FaultyNode, direct: str
) -> None:
    async def in_parts(do: Do) -> list[Verdict]:
        """As a group that is too large for one transaction: the first part is in the log, the second was refused."""
        await do()
        return [Refused({0: Known(1, is_written=True)}, frozenset())]

    a.faulty_log.faults.append(in_parts)
    assert await a.code("alice", direct, "m1") == "stored"
    assert await a.code("alice", direct, "m1") == "duplicate"


# --- counters that are lost while a batch is under way -------------------------------------------


async def lose_counter(node: FaultyNode, conversation_id: str) -> None:
    """As an eviction does it, or a failover that lost the tail."""
    await node.command("DEL", node.core.keys.conv(conversation_id))


@pytest.mark.parametrize("losses", [1, 2, 3])
async def test_a_batch_whose_counter_is_lost_again_and_again_is_stored(
    a: FaultyNode, b: FaultyNode, direct: str, losses: int
) -> None:
    for i in range(12):
        await a.send("alice", direct, f"m{i}")
    gates = [Gate() for _ in range(losses)]
    a.faulty_log.faults.extend(gates)
    batch = [a.submit("alice", direct, id_, origin="socket") for id_ in ("x", "y")]
    for i, gate in enumerate(gates):
        await asyncio.wait_for(gate.reached.wait(), 60)
        await lose_counter(a, direct)
        assert (await b.send("alice", direct, f"other{i}")).entry.seq_no == 13 + i
        gate.opened.set()
    answers = await asyncio.gather(*batch)
    assert [code_of(answer) for answer in answers] == ["stored", "stored"]
    others = [(13 + i, "message", f"other{i}") for i in range(losses)]
    assert told(await a.log(direct))[12:] == [
        *others,
        (13 + losses, "message", "x"),
        (14 + losses, "message", "y"),
    ]
    assert [answer.entry.seq_no for answer in answers if isinstance(answer, Sent)] == [13 + losses, 14 + losses]
    assert await a.unread("bob") == 14 + losses and await a.wrong() == []


async def test_a_number_that_another_node_was_given_since_is_not_voided(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    await b.send("alice", direct, "m1")
    slow, slower = Gate(), Gate()
    a.faulty_log.faults.append(slow)
    mine = [a.submit("alice", direct, id_, origin="socket") for id_ in ("x", "y")]  # 2 and 3
    await slow.reached.wait()
    await lose_counter(a, direct)
    await b.send("alice", direct, "z")  # 2
    b.faulty_log.faults.append(slower)
    other = b.submit("alice", direct, "w")  # 3
    await slower.reached.wait()
    slow.opened.set()
    assert [code_of(answer) for answer in await asyncio.gather(*mine)] == ["stored", "stored"]
    slower.opened.set()
    assert code_of(await other) == "stored"
    assert [entry.message_id for entry in await a.log(direct)] == ["m1", "z", "w", "x", "y"]


async def test_the_note_of_a_number_goes_with_the_counter_that_gave_it(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    """Else `m3` would be stored above numbers that are still to come, and be overtaken by what is sent after it."""
    a.faulty_log.faults.append(down)
    failed = await asyncio.gather(*(a.submit("alice", direct, f"m{i}") for i in (1, 2, 3)))
    assert [code_of(answer) for answer in failed] == ["unavailable"] * 3
    await lose_counter(a, direct)
    assert (await b.send("bob", direct, "z")).entry.seq_no == 1
    assert (await b.send("alice", direct, "m3")).entry.seq_no == 2
    assert (await b.send("bob", direct, "after it")).entry.seq_no == 3


# --- edits and deletes ----------------------------------------------------------------------------


async def test_a_deleted_message_stays_deleted_whatever_is_edited_at_the_same_time(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "secret")
    rewrites = a.core.rewrites
    results = await asyncio.gather(
        rewrites.delete("alice", direct, 1),
        rewrites.edit("alice", direct, 1, ContentPatch("still here")),
        rewrites.edit("alice", direct, 1, ContentPatch("and here"), "e2"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [Sent, NotFound, NotFound]
    row = (await a.log(direct))[0]
    assert (row.is_deleted, row.text) == (True, None)
    with pytest.raises(NotFound):
        await rewrites.edit("alice", direct, 1, ContentPatch("back again"), "e3")
    with pytest.raises(NotFound):
        await rewrites.delete("alice", direct, 1, "d2")
    assert (await a.log(direct))[0] == row
    assert await a.unread("bob") == 0 and await a.wrong() == []


async def test_edits_of_one_message_at_once_are_all_numbered_and_the_last_text_stays(
    a: FaultyNode, direct: str
) -> None:
    await a.send("alice", direct, "m1", "0")
    edits = await asyncio.gather(*(a.core.rewrites.edit("alice", direct, 1, ContentPatch(str(i))) for i in range(1, 5)))
    last = max(edits, key=lambda sent: sent.entry.seq_no)
    row = (await a.log(direct))[0]
    assert (row.text, row.edit_seq) == (last.entry.text, last.entry.seq_no)
    assert [entry.text for entry in await a.log(direct) if entry.kind == "edit"][:-1] == [None] * 3


@pytest.mark.parametrize("kind", ["edit", "delete"])
async def test_a_rewriting_that_another_nodes_edit_overtook_stands_after_it(
    a: FaultyNode, b: FaultyNode, direct: str, kind: str
) -> None:
    """Who reads the log in its order ends with what the row says."""
    await a.send("alice", direct, "m1", "first")
    gate = Gate()
    a.faulty_log.faults.append(gate)
    rewrites = a.core.rewrites
    late = (
        rewrites.edit("alice", direct, 1, ContentPatch("last"))
        if kind == "edit"
        else rewrites.delete("alice", direct, 1)
    )
    slow = asyncio.create_task(late)
    await gate.reached.wait()
    assert (await b.core.rewrites.edit("alice", direct, 1, ContentPatch("between"))).entry.seq_no == 3
    gate.opened.set()
    assert (await slow).entry.seq_no == 4
    text = "last" if kind == "edit" else None
    log = [(entry.kind, entry.text) for entry in await b.log(direct)]
    assert log == [("message", text), ("void", None), ("edit", None), (kind, text)]
    assert await b.wrong() == []


async def test_a_resent_edit_whose_number_was_overtaken_gets_another(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "first")
    a.faulty_log.faults.append(down)
    with pytest.raises(StoreUnavailable):
        await a.core.rewrites.edit("alice", direct, 1, ContentPatch("last"), "e1")
    assert (await b.core.rewrites.edit("alice", direct, 1, ContentPatch("between"))).entry.seq_no == 3
    assert (await b.core.rewrites.edit("alice", direct, 1, ContentPatch("last"), "e1")).entry.seq_no == 4
    assert (await b.log(direct))[0].text == "last" and await b.wrong() == []


async def test_a_resent_edit_or_delete_is_a_duplicate_and_its_id_is_of_one_message(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.send("alice", direct, "m2")
    edit, delete = a.core.rewrites.edit, a.core.rewrites.delete
    first = await edit("alice", direct, 1, ContentPatch("new"), "e1")
    assert (await edit("alice", direct, 1, ContentPatch("new"), "e1")).entry.seq_no == first.entry.seq_no
    with pytest.raises(IdConflict):
        await edit("alice", direct, 2, ContentPatch("new"), "e1")
    gone = await delete("alice", direct, 1, "d1")
    again = await delete("alice", direct, 1, "d1")
    assert (again.entry.seq_no, again.is_duplicate) == (gone.entry.seq_no, True)
    with pytest.raises(IdConflict):
        await delete("alice", direct, 2, "d1")
    assert not (await a.log(direct))[1].is_deleted


async def test_a_resend_after_an_edit_is_still_the_same_message(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "before")
    await a.core.rewrites.edit("alice", direct, 1, ContentPatch("after"))
    again = await a.core.sends.send("alice", direct, "m1", Content("before"))
    assert again.is_duplicate and again.entry.text == "after"


async def test_a_group_that_finds_no_free_numbers_is_refused(a: FaultyNode, direct: str) -> None:
    async def taken(do: object) -> list[Refused]:
        entries = a.faulty_log.appends[-1][0].entries
        return [Refused({}, frozenset(at for at, entry in enumerate(entries) if entry.kind != "void"))]

    a.faulty_log.faults.extend([taken] * 20)
    with pytest.raises(StoreUnavailable):
        await a.send("alice", direct, "m1")
    assert len(a.faulty_log.appends) == 9
    a.faulty_log.faults.clear()
    assert (await a.send("alice", direct, "m1")).entry.kind == "message"


# --- numbers that nobody used ---------------------------------------------------------------------


async def test_a_number_that_was_noted_long_ago_is_not_used_any_more(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    """Whoever began to listen meanwhile takes everything that old for told."""
    a.faulty_log.faults.append(down)
    assert await a.code("alice", direct, "m1") == "unavailable"
    b.clock.ahead_ms += 4_000
    assert await b.code("alice", direct, "m1") == "stored"
    assert told(await a.log(direct)) == [(1, "void", None), (2, "message", "m1")]
    assert await a.code("alice", direct, "m1") == "duplicate" and await a.unread("bob") == 1


async def test_who_had_the_old_number_and_was_only_slow_answers_with_the_new_one(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    gate = Gate()
    a.faulty_log.faults.append(gate)
    mine = a.submit("alice", direct, "m1")
    await gate.reached.wait()
    b.clock.ahead_ms += 4_000
    assert await b.code("alice", direct, "m1") == "stored"
    gate.opened.set()
    answer = await mine
    assert isinstance(answer, Sent) and answer.entry.seq_no == 2
    assert told(await a.log(direct)) == [(1, "void", None), (2, "message", "m1")]
    assert await a.unread("bob") == 1 and await a.wrong() == []


# --- the commit of a group -------------------------------------------------------------------------


def test_a_refused_draft_gives_its_number_up_to_a_void() -> None:
    group = numbered(draft("m1"), draft("m2"))
    group.refuse(group.drafts[0], NotFound())
    stored, positions = to_group(group)
    assert [(entry.seq_no, entry.kind, entry.sent_ms) for entry in stored.entries] == [
        (5, "void", 1_005),
        (6, "message", 1_006),
    ]
    assert positions == [None, group.drafts[0]]


def test_a_message_of_a_direct_conversation_names_its_receiver_and_its_time() -> None:
    group = numbered(draft("m1"), draft("m2", timestamp=3))
    entries = to_group(group)[0].entries
    assert [(entry.receiver_id, entry.timestamp) for entry in entries] == [("bob", 1_005), ("bob", 3)]


def test_numbers_noted_before_are_stored_in_the_order_of_the_log() -> None:
    group = numbered(draft("m1"), draft("m2"))
    group.drafts[1].seq_no, group.drafts[1].is_known, group.has_known = 2, True, True
    stored, positions = to_group(group)
    assert [entry.seq_no for entry in stored.entries] == [2, 5]
    assert ids(positions) == ["m2", "m1"]


def test_a_rewrite_of_a_deleted_message_matches_no_row() -> None:
    group = numbered(draft("e1", kind="edit", target=target(1, rev=3)), draft("e2", kind="edit", target=target(2)))
    group.drafts[1].target = target(2, rev=1, is_deleted=True)
    revs = [rewrite.expected_rev for rewrite in to_group(group)[0].rewrites]
    assert revs == [3, -1]


def test_a_change_brings_members_and_rows_with_its_own_number() -> None:
    roles: dict[str, Role] = {"alice": "owner", "bob": "member"}
    added = to_group(member_change(MemberChange("added", ("carol",)), roles))[0]
    assert [(member.user_id, member.joined_seq) for member in added.members] == [("carol", 5)]
    assert [(row.user_id, row.joined_seq, row.joined_ms) for row in added.rows_added] == [("carol", 5, 1_005)]
    removed = to_group(member_change(MemberChange("removed", ("bob",)), roles))[0]
    assert [(member.user_id, member.left_seq) for member in removed.members] == [("bob", 5)]
    assert removed.rows_removed == ("bob",)
    raised = to_group(member_change(MemberChange("role", ("bob",), "admin"), roles))[0]
    assert [(member.user_id, member.role) for member in raised.members] == [("bob", "admin")]


# --- records beside the log -----------------------------------------------------------------------


class Tally:
    """A companion that counts the entries of a conversation, up to a most."""

    def __init__(self, node: FaultyNode, conversation_id: str, most: int = 99) -> None:
        self.records = node.tables.records
        self.key = RecordKey(of_conversation(conversation_id), "tally", "all")
        self.most = most
        self.seen: tuple[int, int] = (0, 0)  # version, count

    @property
    def keys(self) -> frozenset[RecordKey]:
        return frozenset((self.key,))

    @property
    def last_seq(self) -> int:
        return 0

    async def read(self) -> None:
        found = (await self.records.get(self.key.owner, self.key.collection, [self.key.name])).get(self.key.name)
        self.seen = (found.version, int(found.value)) if found is not None else (0, 0)
        if self.seen[1] >= self.most:
            raise Forbidden("the tally is full")

    def puts(self, entry: Entry) -> list[Put]:
        version, count = self.seen
        return [Put(*self.key, b"%d" % (count + 1), expected=version)]


async def test_records_are_committed_with_their_entry_and_read_anew_when_they_have_changed(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    sends = [
        node.submit("alice", direct, f"m{at}-{name}", companion=Tally(node, direct))
        for at in range(5)
        for name, node in (("a", a), ("b", b))
    ]
    assert [code_of(answer) for answer in await asyncio.gather(*sends)] == ["stored"] * 10
    tally = Tally(a, direct)
    await tally.read()
    assert tally.seen == (10, 10) and len(await a.log(direct)) == 10


async def test_a_companion_that_refuses_after_a_change_refuses_its_draft_alone(a: FaultyNode, direct: str) -> None:
    await asyncio.gather(a.submit("alice", direct, "m1", companion=Tally(a, direct)))
    refused = a.submit("alice", direct, "m2", companion=Tally(a, direct, most=1))
    other = a.submit("alice", direct, "m3")
    assert [code_of(await refused), code_of(await other)] == ["forbidden", "stored"]


async def test_a_resend_commits_its_records_once(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.append(answer_lost)
    assert code_of(await a.submit("alice", direct, "m1", companion=Tally(a, direct))) == "stored"
    assert code_of(await a.submit("alice", direct, "m1", companion=Tally(a, direct))) == "duplicate"
    tally = Tally(a, direct)
    await tally.read()
    assert tally.seen == (1, 1)
