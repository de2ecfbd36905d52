"""The queue of receipts folds, is fair to each user, and lets large conversations wait."""

from __future__ import annotations

import pytest

from tidings.bounds import RECEIPT_LARGE_PASSES
from tidings.messaging.reading import waiting_receipts as module
from tidings.messaging.reading.waiting_receipts import Answer, WaitingReceipts


def test_the_highest_of_each_mark_is_kept() -> None:
    waiting = WaitingReceipts()
    for delivered, read in ((3, 0), (2, 2), (1, 0)):
        waiting.put(("c", "bob"), delivered, read)
    assert len(waiting) == 1 and waiting.take(10, is_all=False).marks == {("c", "bob"): (3, 2)}
    assert not waiting and waiting.take(10, is_all=True).marks == {}


def test_a_user_has_so_many_and_others_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECEIPTS_PER_USER_MAX", 2)
    waiting = WaitingReceipts()
    for user_id in ("mallory", "bob"):
        for number in range(3):
            waiting.put((f"c{number}", user_id), 1, 0)
    assert set(waiting.take(10, is_all=False).marks) == {
        (f"c{n}", user_id) for n in range(2) for user_id in ("mallory", "bob")
    }
    waiting.put(("c9", "mallory"), 1, 0)
    assert ("c9", "mallory") in waiting, "what was taken makes room"


def test_what_is_known_goes_before_what_may_be_made_up() -> None:
    waiting = WaitingReceipts()
    waiting.put_unknown(("made-up", "mallory"), 1, 0)
    waiting.put(("c", "bob"), 1, 0)
    assert list(waiting.take(10, is_all=False).marks) == [("c", "bob")]
    assert list(waiting.take(10, is_all=False).marks) == [("made-up", "mallory")]


def test_a_large_conversation_waits_for_some_passes() -> None:
    waiting = WaitingReceipts()
    waiting.put_large(("big", "bob"), 1, 0)
    for _ in range(RECEIPT_LARGE_PASSES):
        assert waiting.take(10, is_all=False).marks == {}
        waiting.begin_pass()
    waiting.put_large(("big", "bob"), 2, 0)
    assert waiting.take(10, is_all=False).marks == {("big", "bob"): (2, 0)}
    waiting.put_large(("big", "bob"), 3, 0)
    assert waiting.take(10, is_all=True).marks == {("big", "bob"): (3, 0)}


def test_an_answer_waits_for_its_own_receipt_also_where_another_queue_has_the_same_member() -> None:
    waiting, answers = WaitingReceipts(), list[str]()
    waiting.put_unknown(("c", "bob"), 2, 0, Answer(1, lambda is_written: answers.append(f"unknown {is_written}")))
    waiting.put(("c", "bob"), 1, 0, Answer(1, lambda is_written: answers.append(f"known {is_written}")))
    for expected in ("known True", "unknown True"):
        taken = waiting.take(10, is_all=False)
        assert len(taken.answers) == 1
        taken.settle(True)
        assert answers.pop() == expected


def test_an_answer_is_given_once_after_the_last_receipt_or_the_first_that_fails() -> None:
    told = list[bool]()
    good, bad = Answer(2, told.append), Answer(2, told.append)
    good.settle(True)
    assert told == []
    good.settle(True)
    bad.settle(False)
    bad.settle(True)
    bad.settle(False)
    assert told == [True, False]


def test_receipts_that_were_taken_together_can_be_settled_apart() -> None:
    waiting, answers = WaitingReceipts(), list[str]()
    both = Answer(2, lambda is_written: answers.append(f"both {is_written}"))
    waiting.put(("c", "bob"), 1, 0, both)
    waiting.put(("d", "bob"), 1, 0, both)
    waiting.put(("d", "carol"), 2, 0)
    parts = waiting.take(10, is_all=True).apart()
    assert [list(part.marks) for part in parts] == [[("c", "bob")], [("d", "bob"), ("d", "carol")]]
    parts[1].settle(True)
    assert answers == []
    parts[0].settle(True)
    assert answers == ["both True"]
