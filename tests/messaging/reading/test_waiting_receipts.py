"""The queue of receipts folds, is fair to each user, and lets large conversations wait."""

from __future__ import annotations

import pytest

from tidings.bounds import RECEIPT_LARGE_PASSES
from tidings.messaging.reading import waiting_receipts as module
from tidings.messaging.reading.waiting_receipts import WaitingReceipts


def test_the_highest_of_each_mark_is_kept() -> None:
    waiting = WaitingReceipts()
    for delivered, read in ((3, 0), (2, 2), (1, 0)):
        waiting.put(("c", "bob"), delivered, read)
    assert len(waiting) == 1 and waiting.take(10, is_all=False) == {("c", "bob"): (3, 2)}
    assert not waiting and waiting.take(10, is_all=True) == {}


def test_a_user_has_so_many_and_others_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECEIPTS_PER_USER_MAX", 2)
    waiting = WaitingReceipts()
    for user_id in ("mallory", "bob"):
        for number in range(3):
            waiting.put((f"c{number}", user_id), 1, 0)
    assert set(waiting.take(10, is_all=False)) == {
        (f"c{n}", user_id) for n in range(2) for user_id in ("mallory", "bob")
    }
    waiting.put(("c9", "mallory"), 1, 0)
    assert ("c9", "mallory") in waiting, "what was taken makes room"


def test_what_is_known_goes_before_what_may_be_made_up() -> None:
    waiting = WaitingReceipts()
    waiting.put_unknown(("made-up", "mallory"), 1, 0)
    waiting.put(("c", "bob"), 1, 0)
    assert list(waiting.take(10, is_all=False)) == [("c", "bob")]
    assert list(waiting.take(10, is_all=False)) == [("made-up", "mallory")]


def test_a_large_conversation_waits_for_some_passes() -> None:
    waiting = WaitingReceipts()
    waiting.put_large(("big", "bob"), 1, 0)
    for _ in range(RECEIPT_LARGE_PASSES):
        assert waiting.take(10, is_all=False) == {}
        waiting.begin_pass()
    waiting.put_large(("big", "bob"), 2, 0)
    assert waiting.take(10, is_all=False) == {("big", "bob"): (2, 0)}
    waiting.put_large(("big", "bob"), 3, 0)
    assert waiting.take(10, is_all=True) == {("big", "bob"): (3, 0)}
