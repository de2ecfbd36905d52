"""Admit: the send budget, what is free of it, and what is held."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from tests.support.messaging.faulty_stores import FaultyNode, Gate, code_of, down, open_faulty, record_members
from tidings.bounds import Limit
from tidings.config.settings import Settings
from tidings.errors import RateLimited
from tidings.messaging.send.admit import Lately
from tidings.messaging.send.draft import Draft
from tidings.messaging.send.lanes import Lane
from tidings.model import Sent
from tidings.stores.keyspace.call import plain


def with_limit(settings: Settings, count: int, window_s: int = 60) -> Settings:
    limits = dataclasses.replace(settings.limits, send=Limit(count, window_s))
    return dataclasses.replace(settings, limits=limits)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return with_limit(settings, 5)


async def test_of_1000_simultaneous_sends_exactly_100_pass(settings: Settings) -> None:
    async with open_faulty(with_limit(settings, 100), "a") as a:
        view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
        id_ = view.head.conversation_id
        answers = await asyncio.gather(*(a.submit("alice", id_, f"m{i}") for i in range(1_000)))
        codes = [code_of(answer) for answer in answers]
        assert (codes.count("stored"), codes.count("rate_limited")) == (100, 900)
        assert len(await a.log(id_)) == 100
        refused = [answer for answer in answers if isinstance(answer, RateLimited)]
        assert {answer.limit for answer in refused} == {100}
        assert all(0 < (answer.retry_after_ms or 0) <= 60_001 for answer in refused)


async def test_1000_sends_over_many_conversations_and_two_nodes_share_one_budget(a: FaultyNode, b: FaultyNode) -> None:
    ids = []
    for i in range(20):
        view, _ = await a.core.directory.create("alice", kind="direct", members=[f"bob{i}"])
        ids.append(view.head.conversation_id)
    nodes = (a, b)
    answers = await asyncio.gather(*(nodes[i % 2].submit("alice", ids[i % 20], f"m{i}") for i in range(1_000)))
    assert [code_of(answer) for answer in answers].count("stored") == 5


async def test_a_resend_of_a_stored_message_is_free(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    for _ in range(20):
        assert (await a.send("alice", direct, "m1")).is_duplicate
    assert [await a.code("alice", direct, f"n{i}") for i in range(5)] == ["stored"] * 4 + ["rate_limited"]


async def test_a_resend_is_free_when_the_budget_is_used_up(a: FaultyNode, direct: str) -> None:
    for i in range(5):
        await a.send("alice", direct, f"m{i}")
    answers = await asyncio.gather(*(a.submit("alice", direct, f"m{i}") for i in range(5)))  # asks the keyspace
    assert [code_of(answer) for answer in answers] == ["duplicate"] * 5
    assert await a.code("alice", direct, "new") == "rate_limited"
    said = len(a.keyspace.said)
    answer = await a.submit("alice", direct, "m3")  # from memory now
    assert isinstance(answer, Sent) and answer.is_duplicate and answer.entry.seq_no == 4
    assert "limiter_admit" not in a.keyspace.said[said:]


async def test_a_resend_to_another_node_is_free_when_the_budget_is_used_up(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    for i in range(5):
        await a.send("alice", direct, f"m{i}")
    assert (await b.send("alice", direct, "m2")).entry.seq_no == 3


async def test_who_is_refused_from_memory_costs_the_keyspace_nothing(a: FaultyNode, direct: str) -> None:
    for i in range(6):
        await a.code("alice", direct, f"m{i}")
    said = len(a.keyspace.said)
    answers = await asyncio.gather(*(a.submit("alice", direct, f"n{i}") for i in range(500)))
    assert {code_of(answer) for answer in answers} == {"rate_limited"}
    assert a.keyspace.said[said:] == []


async def test_refusals_of_a_batch_are_looked_up_in_one_round_trip(a: FaultyNode, direct: str) -> None:
    answers = await asyncio.gather(*(a.submit("alice", direct, f"m{i}") for i in range(40)))
    assert [code_of(answer) for answer in answers].count("stored") == 5
    runs = a.keyspace.runs
    assert [run for run in runs if set(run) == {"HGET"}] == [["HGET"] * 70]


async def test_an_admitted_duplicate_gives_its_slot_back(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1")
    await asyncio.gather(*(a.submit("alice", direct, "m1") for _ in range(3)))
    budgets = await a.core.limiting.limiter.budgets("alice")
    assert budgets["send"].remaining == 4


async def test_after_the_window_slides_sends_pass_again(settings: Settings) -> None:
    async with open_faulty(with_limit(settings, 20, 1), "a") as a:
        view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
        id_ = view.head.conversation_id
        codes = [code_of(one) for one in await asyncio.gather(*(a.submit("alice", id_, f"m{i}") for i in range(30)))]
        assert codes.count("stored") == 20
        while (await a.core.limiting.limiter.budgets("alice"))["send"].remaining < 20:
            await asyncio.sleep(0.02)
        answers = await asyncio.gather(*(a.submit("alice", id_, f"n{i}") for i in range(30)))
        codes = [code_of(answer) for answer in answers]
        assert codes.count("stored") == 20


# --- holds ----------------------------------------------------------------------------------------


async def test_the_first_refused_send_of_a_device_is_rate_limited_and_the_later_ones_are_held(
    a: FaultyNode, direct: str
) -> None:
    answers = await asyncio.gather(*(a.submit("alice", direct, f"m{i}", origin="socket") for i in range(8)))
    assert [code_of(answer) for answer in answers] == ["stored"] * 5 + ["rate_limited", "held", "held"]
    assert await a.code("alice", direct, "m9", origin="socket") == "held"
    assert await a.code("alice", direct, "other", origin="another socket") == "rate_limited"
    assert await a.code("alice", direct, "rest") == "rate_limited"


async def test_a_hold_passes_in_order_when_the_budget_is_back(settings: Settings) -> None:
    async with open_faulty(with_limit(settings, 3, 1), "a") as a:
        view, _ = await a.core.directory.create("alice", kind="direct", members=["bob"])
        id_ = view.head.conversation_id
        await asyncio.gather(*(a.submit("alice", id_, f"m{i}", origin="socket") for i in range(6)))
        while (await a.core.limiting.limiter.budgets("alice"))["send"].remaining < 3:
            await asyncio.sleep(0.02)
        assert await a.code("alice", id_, "m5", origin="socket") == "held"
        answers = await asyncio.gather(*(a.submit("alice", id_, f"m{i}", origin="socket") for i in (3, 4, 5)))
        assert [code_of(answer) for answer in answers] == ["stored"] * 3
        assert [entry.message_id for entry in await a.log(id_)] == [f"m{i}" for i in range(6)]


async def test_a_send_refused_at_the_limit_and_one_refused_by_the_store_are_held_in_the_order_they_came(
    a: FaultyNode, direct: str
) -> None:
    for i in range(4):
        await a.send("alice", direct, f"early{i}")
    a.faulty_log.faults.append(down)
    answers = await asyncio.gather(*(a.submit("alice", direct, id_, origin="socket") for id_ in ("m1", "m2", "m3")))
    assert [code_of(answer) for answer in answers] == ["unavailable", "rate_limited", "held"]
    # m2 must not pass before m1, whatever the client does.
    assert await a.code("alice", direct, "m2", origin="socket") == "held"
    assert await a.code("alice", direct, "m1", origin="socket") == "stored"


# --- the ids admitted last ------------------------------------------------------------------------


def test_the_ids_admitted_last_are_forgotten_in_two_steps() -> None:
    def draft(i: int) -> Draft:
        return Draft(sender_id="alice", conversation_id="c", message_id=f"m{i}", reply=lambda result: None)

    lately = Lately(size_max=10)
    for i in range(25):
        lately.add([draft(i)])
    assert [draft(i) in lately for i in (0, 9, 10, 24, 25)] == [False, False, True, True, False]


async def test_a_number_that_went_to_a_send_over_the_budget_is_closed_and_the_send_gets_another_later(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    for i in range(5):
        await b.send("alice", direct, f"m{i}")
    assert await a.code("alice", direct, "late") == "rate_limited"  # this node expected nothing of the kind
    asked, forgotten = a.keyspace.runs[-2:]
    assert asked[0] == "limiter_admit" and "conversation_number" in asked and forgotten == ["sent_forget"]
    assert [entry.kind for entry in await a.log(direct)] == ["message"] * 5 + ["void"]
    key = a.core.keys.rate("alice", "send")
    await a.keyspace.one(plain(key, "DEL", key))
    a.clock.elapsed_s += 61
    assert (await a.send("alice", direct, "late")).entry.seq_no == 7


async def test_a_send_that_was_refused_after_it_was_numbered_does_not_pass_free(
    a: FaultyNode, b: FaultyNode, direct: str
) -> None:
    for i in range(5):
        await b.send("alice", direct, f"m{i}")
    assert await a.code("alice", direct, "late") == "rate_limited"
    assert "conversation_number" in a.keyspace.said
    assert await b.code("alice", direct, "late") == "rate_limited"


async def test_a_send_over_the_budget_below_a_member_change_that_is_under_way_holds_up_no_other(
    a: FaultyNode, b: FaultyNode, direct: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its group waits for the change with a number to close, and with nothing to send."""
    monkeypatch.setattr(a.core.sends, "_lanes", [Lane()])
    await a.send("carol", group, "m0")
    for i in range(5):
        await b.send("alice", group, f"m{i}")
    change, numbering = Gate(), Gate()
    b.faulty_log.faults.append(change)
    removal = asyncio.ensure_future(b.core.directory.remove("alice", group, "bob"))
    await change.reached.wait()
    a.keyspace.fail("conversation_number", numbering)
    over = a.submit("alice", group, "late")
    await numbering.reached.wait()
    other = a.submit("bob", direct, "quiet")
    numbering.opened.set()
    async with asyncio.timeout(60):
        assert code_of(await over) == "rate_limited"
        assert code_of(await other) == "stored"
        change.opened.set()
        await removal
        assert code_of(await a.submit("carol", group, "after")) == "stored"
    assert "void" in [entry.kind for entry in await a.log(group)]


# --- what costs a slot, and what gives it back ---------------------------------------------------------


async def test_sends_to_conversations_of_others_use_up_the_send_budget(a: FaultyNode, direct: str) -> None:
    codes = [await a.code("zoe", f"c-none{i}", "m") for i in range(20)]
    assert codes == ["not_found"] * 5 + ["rate_limited"] * 15
    reads = record_members(a)
    said = len(a.keyspace.said)
    assert await a.code("zoe", "c-none", "m") == "rate_limited"
    assert await a.code("zoe", "c-none0", "m") == "rate_limited", "an id that was refused is no resend"
    assert reads == [] and a.keyspace.said[said:] == []
    assert await a.code("alice", direct, "m1") == "stored"


async def test_sends_that_fail_for_now_give_their_slots_back(a: FaultyNode, direct: str) -> None:
    a.faulty_log.faults.extend([down] * 20)
    assert {await a.code("alice", direct, "m1") for _ in range(20)} == {"unavailable"}
    assert [await a.code("alice", direct, f"m{i}") for i in range(1, 7)] == ["stored"] * 5 + ["rate_limited"]


async def test_a_batch_that_cannot_be_indexed_gives_its_slots_back(a: FaultyNode, direct: str) -> None:
    for _ in range(5):
        a.keyspace.fail("inbox_index", down)
        assert await a.code("alice", direct, "m1") == "unavailable"
    codes = [await a.code("alice", direct, f"m{i}") for i in range(1, 8)]
    assert codes == ["duplicate"] + ["stored"] * 5 + ["rate_limited"]


async def test_a_send_that_is_refused_for_good_keeps_its_slot(a: FaultyNode, direct: str) -> None:
    await a.send("alice", direct, "m1", "one text")
    assert [await a.code("alice", direct, "m1", "another") for _ in range(4)] == ["conflict"] * 4
    assert await a.code("alice", direct, "m2") == "rate_limited"
