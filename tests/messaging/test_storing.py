"""Store: exactly once in the log, whatever is lost, repeated or taken on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.messaging.faulty import After, FaultyNode, Gate, answer_lost, code_of, down, request_lost, throttled, told
from tidings.errors import IdConflict, NotFound, StoreUnavailable
from tidings.messaging import storing
from tidings.model import Entry, Sent
from tidings.stores.ports import Group, Refused


async def void(node: FaultyNode, conversation_id: str, seq_no: int) -> None:
    """As a reader would close an open slot."""
    entry = Entry(conversation_id=conversation_id, seq_no=seq_no, kind="void", sent_ms=seq_no)
    assert await node.tables.append([Group(conversation_id=conversation_id, entries=(entry,))]) == [None]


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

    monkeypatch.setattr(a.tables, "catch_up", catch_up, raising=False)
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
    a.tables.faults.append(gate)
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
    a.tables.faults.append(down)
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
    a.tables.faults.append(down)
    assert await a.code("alice", direct, "m1") == "unavailable"
    await void(b, direct, 1)
    first = await b.send("alice", direct, "m1")
    assert (first.entry.seq_no, first.is_duplicate) == (2, False)
    assert (await a.send("alice", direct, "m1")).entry.seq_no == 2
    assert told(await b.log(direct)) == [(1, "void", None), (2, "message", "m1")]


async def test_what_came_after_an_id_whose_slot_was_voided_stays_after_it(a: FaultyNode, direct: str) -> None:
    a.tables.faults.append(down)
    codes = await asyncio.gather(*(a.submit("alice", direct, id_, origin="socket") for id_ in ("m1", "m2")))
    assert [code_of(answer) for answer in codes] == ["unavailable"] * 2
    await void(a, direct, 1)  # slot 2 is still open, and noted for m2
    ids = ["m1", "m2", "m3"]
    answers = await asyncio.gather(*(a.submit("alice", direct, id_, origin="socket") for id_ in ids))
    assert [code_of(answer) for answer in answers] == ["stored"] * 3
    log = await a.log(direct)
    assert [entry.message_id for entry in log if entry.kind == "message"] == ids
    assert [entry.seq_no for entry in log] == list(range(1, len(log) + 1))


async def test_a_slow_writer_who_lost_its_slot_takes_another(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    gate = Gate()
    a.tables.faults.append(gate)
    slow = a.submit("alice", direct, "m1")
    await gate.reached.wait()
    await void(b, direct, 1)
    gate.opened.set()
    answer = await slow
    assert isinstance(answer, Sent) and answer.entry.seq_no == 2 and not answer.is_duplicate
    assert (await b.send("alice", direct, "m1")).entry.seq_no == 2


# --- commits without an answer --------------------------------------------------------------------


async def test_an_ambiguous_commit_that_happened_is_stored_once(a: FaultyNode, direct: str) -> None:
    a.tables.faults.append(answer_lost)
    answers = await asyncio.gather(*(a.submit("alice", direct, f"m{i}") for i in range(3)))
    assert [code_of(answer) for answer in answers] == ["stored"] * 3
    assert told(await a.log(direct)) == [(1 + i, "message", f"m{i}") for i in range(3)]
    assert await a.unread("bob") == 3 and await a.wrong() == []


async def test_an_ambiguous_commit_that_did_not_happen_is_stored_once(a: FaultyNode, direct: str) -> None:
    a.tables.faults.extend([request_lost, throttled, request_lost])
    assert await a.code("alice", direct, "m1") == "stored"
    assert told(await a.log(direct)) == [(1, "message", "m1")]
    assert [groups[0].entries[0].seq_no for groups in a.tables.appends] == [1] * 4, "never another number meanwhile"


async def test_a_commit_that_stays_ambiguous_is_refused_and_found_by_the_resend(
    a: FaultyNode, direct: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "STORE_DEADLINE_S", 0.12)
    a.tables.faults.extend([answer_lost, *[request_lost] * 20])
    assert await a.code("alice", direct, "m1") == "unavailable"
    a.tables.faults.clear()
    again = await a.send("alice", direct, "m1")
    assert (again.entry.seq_no, again.is_duplicate) == (1, True)
    assert await a.unread("bob") == 1


async def test_a_commit_that_comes_late_is_not_repeated(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    after = After()
    a.tables.faults.append(after)
    slow = a.submit("alice", direct, "m1")
    await after.reached.wait()
    assert (await b.send("alice", direct, "m1")).is_duplicate
    after.opened.set()
    assert code_of(await slow) == "stored"
    assert await b.unread("bob") == 1 and await b.wrong() == []


# --- edits and deletes ----------------------------------------------------------------------------


async def test_a_deleted_message_stays_deleted_whatever_is_edited_at_the_same_time(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "secret")
    rewrites = a.core.rewrites
    results = await asyncio.gather(
        rewrites.delete("alice", direct, 1),
        rewrites.edit("alice", direct, 1, "still here"),
        rewrites.edit("alice", direct, 1, "and here", "e2"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [Sent, NotFound, NotFound]
    row = (await a.log(direct))[0]
    assert (row.is_deleted, row.text) == (True, None)
    with pytest.raises(NotFound):
        await rewrites.edit("alice", direct, 1, "back again", "e3")
    with pytest.raises(NotFound):
        await rewrites.delete("alice", direct, 1, "d2")
    assert (await a.log(direct))[0] == row
    assert await a.unread("bob") == 0 and await a.wrong() == []


async def test_edits_of_one_message_at_once_are_all_numbered_and_the_last_text_stays(
    a: FaultyNode, direct: str
) -> None:
    await a.send("alice", direct, "m1", "0")
    edits = await asyncio.gather(*(a.core.rewrites.edit("alice", direct, 1, str(i)) for i in range(1, 5)))
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
    a.tables.faults.append(gate)
    rewrites = a.core.rewrites
    late = rewrites.edit("alice", direct, 1, "last") if kind == "edit" else rewrites.delete("alice", direct, 1)
    slow = asyncio.create_task(late)
    await gate.reached.wait()
    assert (await b.core.rewrites.edit("alice", direct, 1, "between")).entry.seq_no == 3
    gate.opened.set()
    assert (await slow).entry.seq_no == 4
    text = "last" if kind == "edit" else None
    log = [(entry.kind, entry.text) for entry in await b.log(direct)]
    assert log == [("message", text), ("void", None), ("edit", None), (kind, text)]
    assert await b.wrong() == []


async def test_a_resent_edit_whose_number_was_overtaken_gets_another(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "first")
    a.tables.faults.append(down)
    with pytest.raises(StoreUnavailable):
        await a.core.rewrites.edit("alice", direct, 1, "last", "e1")
    assert (await b.core.rewrites.edit("alice", direct, 1, "between")).entry.seq_no == 3
    assert (await b.core.rewrites.edit("alice", direct, 1, "last", "e1")).entry.seq_no == 4
    assert (await b.log(direct))[0].text == "last" and await b.wrong() == []


async def test_a_resent_edit_or_delete_is_a_duplicate_and_its_id_is_of_one_message(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await a.send("alice", direct, "m2")
    edit, delete = a.core.rewrites.edit, a.core.rewrites.delete
    first = await edit("alice", direct, 1, "new", "e1")
    assert (await edit("alice", direct, 1, "new", "e1")).entry.seq_no == first.entry.seq_no
    with pytest.raises(IdConflict):
        await edit("alice", direct, 2, "new", "e1")
    gone = await delete("alice", direct, 1, "d1")
    again = await delete("alice", direct, 1, "d1")
    assert (again.entry.seq_no, again.is_duplicate) == (gone.entry.seq_no, True)
    with pytest.raises(IdConflict):
        await delete("alice", direct, 2, "d1")
    assert not (await a.log(direct))[1].is_deleted


async def test_a_resend_after_an_edit_is_still_the_same_message(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "before")
    await a.core.rewrites.edit("alice", direct, 1, "after")
    again = await a.core.sends.send("alice", direct, "m1", "before")
    assert again.is_duplicate and again.entry.text == "after"


async def test_a_group_that_finds_no_free_numbers_is_refused(a: FaultyNode, direct: str) -> None:
    async def taken(do: object) -> list[Refused]:
        seqs = frozenset(entry.seq_no for entry in a.tables.appends[-1][0].entries if entry.kind != "void")
        return [Refused({}, seqs)]

    a.tables.faults.extend([taken] * 20)
    with pytest.raises(StoreUnavailable):
        await a.send("alice", direct, "m1")
    assert len(a.tables.appends) == 9
    a.tables.faults.clear()
    assert (await a.send("alice", direct, "m1")).entry.kind == "message"


# --- numbers that nobody used ---------------------------------------------------------------------


async def test_a_number_that_was_noted_long_ago_is_not_used_any_more(a: FaultyNode, b: FaultyNode, direct: str) -> None:
    """Whoever began to listen meanwhile takes everything that old for told."""
    a.tables.faults.append(down)
    assert await a.code("alice", direct, "m1") == "unavailable"
    b.clock.ahead_ms += 4_000
    assert await b.code("alice", direct, "m1") == "stored"
    assert told(await a.log(direct)) == [(1, "void", None), (2, "message", "m1")]
    assert await a.code("alice", direct, "m1") == "duplicate" and await a.unread("bob") == 1


async def test_who_had_the_old_number_and_was_only_slow_answers_with_the_new_one(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    gate = Gate()
    a.tables.faults.append(gate)
    mine = a.submit("alice", direct, "m1")
    await gate.reached.wait()
    b.clock.ahead_ms += 4_000
    assert await b.code("alice", direct, "m1") == "stored"
    gate.opened.set()
    answer = await mine
    assert isinstance(answer, Sent) and answer.entry.seq_no == 2
    assert told(await a.log(direct)) == [(1, "void", None), (2, "message", "m1")]
    assert await a.unread("bob") == 1 and await a.wrong() == []
