"""The history: what is written is what is read, in order, with operations joined by their numbers."""

from __future__ import annotations

from itertools import pairwise

from tidings_proof.judge.history import _TOGETHER, History, Record, read_history, seen


def test_what_was_noted_is_read_back_in_order(history: History) -> None:
    ops = [history.invoke("send", user_id="u0", text=f"m{n}") for n in range(2 * _TOGETHER)]
    for op in ops:
        history.note("ok", "send", op=op, seq=op, value=False)
    history.close()
    records = list(read_history(history.file))
    assert [record.op for record in records] == [*ops, *ops] and len(set(ops)) == len(ops)
    assert all(a.at_s <= b.at_s for a, b in pairwise(records))
    assert records[0] == Record(records[0].at_s, "invoke", "send", op=1, user_id="u0", text="m0")
    history._output = history.file.open("ab")  # the fixture closes it once more


def test_errors_are_counted_by_name(history: History) -> None:
    history.note("info", "send", error="lost")
    history.note("info", "send", error="held")
    assert history.counts["info", "send"] == 2 and history.counts["lost", "send"] == 1


def test_an_entry_keeps_its_identity_when_its_text_changes() -> None:
    message = {"seq": 3, "kind": "message", "sender_id": "u0", "message_id": "a", "text": "hi", "deleted": False}
    gone = {**message, "text": None, "deleted": True}
    assert seen(message).identity == seen(gone).identity and seen(message) != seen(gone)
    member = {"seq": 4, "kind": "member", "member": {"action": "left", "user_ids": ["u1"]}}
    assert (seen(member).action, seen(member).about) == ("left", ("u1",))


def test_time_that_is_excused_stands_still_and_never_goes_back(history: History) -> None:
    before_s = history.now_s()
    history.excuse(3_600.0)
    assert history.now_s() == before_s
    history.excuse(-3_600.0)
    assert history.now_s() >= before_s
