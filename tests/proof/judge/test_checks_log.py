"""The checks of the log: each is content with a good history and notices the one thing that is wrong in a bad one."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.small_history import C, Story, claims_of
from tidings.model import Content
from tidings_proof.judge import checks_log as checks
from tidings_proof.judge.checker import Check, Finding
from tidings_proof.judge.history import Seen
from tidings_proof.people.more import FLEETING


@pytest.fixture
def story() -> Story:
    told = Story()
    told.said("u0", "a")
    told.said("u1", "b")
    return told


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.id)
def test_a_good_history_is_kept(story: Story, check: type[Check]) -> None:
    story.got("u2", 1, 2)
    story.got("u2", 1, 2, f="history")
    finding = story.judged(check)
    assert finding.is_kept and finding.looked > 0, claims_of(finding)


# --- I1 to I4 -------------------------------------------------------------------------------------


def test_an_acknowledged_message_that_is_not_there_is_lost(story: Story) -> None:
    story.send("u0", "c", 3)
    assert story.judged(checks.Acknowledged).broken == 1


def test_an_acknowledged_message_whose_slot_is_anothers_or_void_is_lost(story: Story) -> None:
    story.send("u0", "c", 2)
    story.stored("u0", "", None, kind="void")
    story.send("u0", "d", 3)
    assert story.judged(checks.Acknowledged).broken == 2


def test_a_message_that_is_there_twice_is_noticed(story: Story) -> None:
    story.stored("u0", "a")
    assert story.judged(checks.Once).broken == 1


def test_an_id_that_stands_for_two_texts_or_two_numbers_is_noticed(story: Story) -> None:
    story.send("u0", "a", 1, "another text")
    story.send("u1", "b", 3)
    assert len(list(claims_of(story.judged(checks.Once)))) == 2


def test_the_same_id_of_two_senders_is_two_messages(story: Story) -> None:
    story.said("u1", "a")
    assert story.judged(checks.Once).is_kept


def test_a_number_that_showed_something_else_once_is_noticed(story: Story) -> None:
    other = msgspec.structs.replace(story.seen(2), message_id="z")
    story.note("event", "recv", user_id="u2", seq=2, entries=(other,))
    story.note("event", "recv", user_id="u2", seq=9, entries=(msgspec.structs.replace(other, seq=9),))
    assert story.judged(checks.OneValue).broken == 2


def test_an_id_whose_message_has_ended_by_itself_may_be_sent_with_another_text(story: Story) -> None:
    """Nothing is left to tell another text by."""
    seq = story.stored("u0", f"x{FLEETING}", "burns", is_deleted=True).seq_no
    story.send("u0", f"x{FLEETING}", seq, "burns")
    story.send("u0", f"x{FLEETING}", seq, "something else")
    assert story.judged(checks.Once).is_kept


def test_a_text_may_change_a_number_may_not(story: Story) -> None:
    story.note("event", "recv", user_id="u2", entries=(msgspec.structs.replace(story.seen(2), text=None),))
    assert story.judged(checks.OneValue).is_kept


def test_holes_are_noticed_in_the_log_and_on_a_page(story: Story) -> None:
    story.said("u0", "c")
    story.got("u2", 1, 3, f="history")
    assert story.judged(checks.Gapless).broken == 1
    del story.entries[1]
    assert "missing [2]" in "".join(claims_of(story.judged(checks.Gapless)))


def test_a_head_that_is_not_the_end_and_time_that_goes_back_are_noticed(story: Story) -> None:
    story.stored("u0", "c", sent_ms=1_001 - checks.ON_THE_WAY_MS)
    story.wrong["head"] = 7
    assert story.judged(checks.Gapless).broken == 2


def test_the_time_of_a_void_says_nothing_and_that_of_the_next_message_does(story: Story) -> None:
    story.stored("u0", "", None, kind="void", sent_ms=5)
    story.stored("u0", "c", sent_ms=50_000)
    story.stored("u0", "d", sent_ms=49_000)  # was under way when its counter was lost
    assert story.judged(checks.Gapless).is_kept
    story.stored("u0", "", None, kind="void", sent_ms=50_001)
    story.stored("u0", "e", sent_ms=49_000 - checks.ON_THE_WAY_MS)
    assert story.judged(checks.Gapless).broken == 1


# --- I7 to I9, I17 --------------------------------------------------------------------------------


def test_a_device_whose_order_was_not_kept_is_noticed() -> None:
    story = Story()
    story.stored("u0", "second")
    story.stored("u0", "first")
    story.send("u0", "first", None)
    story.send("u0", "second", 1)
    assert story.judged(checks.DeviceOrder).broken == 1


def test_an_order_that_the_device_broke_itself_is_not_held_against_the_server() -> None:
    story = Story()
    story.stored("u0", "second")
    story.stored("u0", "first")
    story.send("u0", "first", 2, value=True)
    story.send("u0", "second", 1)
    assert story.judged(checks.DeviceOrder).is_kept


def test_two_devices_of_a_user_owe_each_other_no_order() -> None:
    story = Story()
    story.stored("u0", "second")
    story.stored("u0", "first")
    story.send("u0", "first", 2)
    story.send("u0", "second", 1, device="d1")
    assert story.judged(checks.DeviceOrder).is_kept


def test_what_was_sent_after_an_acknowledgement_must_stand_after_it() -> None:
    story = Story()
    story.stored("u1", "late")
    story.stored("u0", "early")
    story.send("u0", "early", 2)
    story.send("u1", "late", 1)
    assert story.judged(checks.RealTime).broken == 1


def test_sends_at_the_same_time_may_stand_in_any_order() -> None:
    story = Story()
    story.stored("u1", "b")
    story.stored("u0", "a")
    first = story.invoke("send", user_id="u0", message_id="a", text="hi")
    second = story.invoke("send", user_id="u1", message_id="b", text="hi")
    story.note("ok", "send", op=first, user_id="u0", message_id="a", seq=2)
    story.note("ok", "send", op=second, user_id="u1", message_id="b", seq=1)
    assert story.judged(checks.RealTime).is_kept


def test_what_nobody_sent_and_what_was_refused_for_good_is_noticed(story: Story) -> None:
    story.stored("u0", "ghost")
    op = story.invoke("send", user_id="u1", message_id="no", text="hi")
    story.note("fail", "send", op=op, user_id="u1", message_id="no", error="not_found")
    story.stored("u1", "no")
    story.send("u2", "maybe", None)
    story.stored("u2", "maybe")
    assert story.judged(checks.Meant).broken == 2


def test_a_text_that_nobody_wrote_is_noticed_where_it_is_seen(story: Story) -> None:
    story.note("event", "recv", user_id="u2", seq=1, entries=(msgspec.structs.replace(story.seen(1), text="forged"),))
    assert story.judged(checks.Meant).broken == 1


def edited(story: Story, target: int, message_id: str, text: str) -> None:
    story.note("invoke", "edit", user_id="u0", message_id=message_id, text=text, value=target)
    story.stored("u0", message_id, text, kind="edit", target_seq=target)


def test_an_edited_message_shows_its_last_text_and_the_earlier_edit_none(story: Story) -> None:
    edited(story, 1, "e1", "one")
    edited(story, 1, "e2", "two")
    assert story.judged(checks.Kept).broken == 3 + 3  # everybody sees the old text, and that of the first edit
    story.entries[0] = msgspec.structs.replace(story.entries[0], content=Content("two"))
    story.entries[2] = msgspec.structs.replace(story.entries[2], content=None)
    assert story.judged(checks.Kept).is_kept


def test_a_deleted_text_that_is_still_there_is_noticed(story: Story) -> None:
    story.stored("u0", "d1", None, kind="delete", target_seq=1)
    assert story.judged(checks.Kept).broken == 3  # everybody still sees it
    story.entries[0] = msgspec.structs.replace(story.entries[0], content=None, is_deleted=True)
    assert story.judged(checks.Kept).is_kept
    story.entries[0] = msgspec.structs.replace(story.entries[0], content=Content("hi"), is_deleted=True)
    assert f"the row of {C} 1 is deleted and still has its text" in claims_of(story.judged(checks.Kept))


def test_an_edit_of_what_was_before_one_joined_must_show_no_text(story: Story) -> None:
    edited(story, 1, "e1", "two")
    story.entries[0] = msgspec.structs.replace(story.entries[0], content=Content("two"))
    dump = story.dump()
    late = dump.shown["u1"]
    (edit,) = [entry for entry in late.histories[C] if entry.kind == "edit"]

    def judged(shown: Seen) -> Finding:
        histories = {C: [shown]}  # nothing before it is shown to u1
        story.wrong = {"shown": {**dump.shown, "u1": msgspec.structs.replace(late, histories=histories)}}
        return story.judged(checks.Kept)

    assert judged(msgspec.structs.replace(edit, text=None)).is_kept
    assert judged(edit).broken == 1
