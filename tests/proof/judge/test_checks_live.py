"""The checks of what connected clients see."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.small_history import C, Story, claims_of
from tidings_proof.judge import checks_live as checks
from tidings_proof.judge.checker import Check


@pytest.fixture
def story() -> Story:
    told = Story()
    for n in range(1, 5):
        told.said("u0", f"m{n}")
    return told


def connected(story: Story, user_id: str = "u1", line: int = 1, have: int = 0) -> None:
    story.note("event", "connected", user_id=user_id, device="d0", line=line, value={C: have})


def resumed(story: Story, from_seq: int, to_seq: int, user_id: str = "u1", **facts: Any) -> None:
    value = {"from_seq": from_seq, "to_seq": to_seq, "complete": True, "reset": False, **facts}
    story.note("event", "resumed", user_id=user_id, device="d0", line=1, value=value)


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.id)
def test_a_good_history_is_kept(story: Story, check: type[Check]) -> None:
    connected(story)
    resumed(story, 1, 0)
    story.got("u1", 1, 2, 3, 4)
    story.got("u1", 1, 2, 3, 4, f="history")
    finding = story.judged(check)
    assert finding.is_kept and finding.looked > 0, claims_of(finding)


# --- I5 -------------------------------------------------------------------------------------------


def test_an_entry_that_comes_twice_or_out_of_order_is_noticed(story: Story) -> None:
    connected(story)
    story.got("u1", 1, 2, 2)
    story.got("u1", 1)
    assert story.judged(checks.InOrder).broken == 2


def test_an_entry_that_is_stepped_over_is_noticed_once_the_resume_was_complete(story: Story) -> None:
    connected(story)
    story.got("u1", 2)  # more is to come as history
    assert story.judged(checks.InOrder).is_kept
    resumed(story, 3, 2)
    story.got("u1", 4)
    assert "[3] never came" in "".join(claims_of(story.judged(checks.InOrder)))


def test_what_the_device_sent_itself_is_not_stepped_over(story: Story) -> None:
    connected(story, "u0")
    resumed(story, 1, 0, "u0")
    story.note("event", "mine", user_id="u0", device="d0", line=1, seq=1)
    story.got("u0", 2)
    story.invoke("send", user_id="u0", device="d0", line=1, message_id="m3")  # its ok is still to come
    story.got("u0", 4)
    assert story.judged(checks.InOrder).is_kept


def test_voids_and_what_a_new_membership_hides_are_not_stepped_over() -> None:
    story = Story(is_churned=True)
    story.said("u0", "m1")
    connected(story)
    resumed(story, 1, 0)
    story.got("u1", 1)
    story.stored("", "", None, kind="void")
    story.said("u0", "m3")
    story.got("u1", 3)
    story.said("u0", "m4")
    story.changed("removed", "u1")
    story.changed("added", "u1")
    story.said("u0", "m7")
    story.got("u1", 7)
    assert story.judged(checks.InOrder).is_kept
    story.said("u0", "m8")
    story.said("u0", "m9")
    story.got("u1", 9)
    assert "[8] never came" in "".join(claims_of(story.judged(checks.InOrder)))


def test_another_connection_begins_anew(story: Story) -> None:
    connected(story)
    story.got("u1", 1, 2)
    connected(story, line=2)
    story.got("u1", 1, 2, line=2)
    assert story.judged(checks.InOrder).is_kept


def test_a_resume_that_leaves_something_out_or_asks_to_forget_is_noticed(story: Story) -> None:
    connected(story)
    story.got("u1", 2)
    resumed(story, 1, 2)
    assert "[1] never came" in "".join(claims_of(story.judged(checks.InOrder)))
    resumed(story, 3, 2, reset=True)
    assert story.judged(checks.InOrder).broken == 2


# --- I6 -------------------------------------------------------------------------------------------


def test_a_device_that_never_got_something_is_noticed(story: Story) -> None:
    story.got("u1", 1, 2, 4)
    assert "u1-d0 never got [3]" in "".join(claims_of(story.judged(checks.Everything)))


def test_a_void_at_the_end_is_owed_to_nobody_and_one_before_it_is(story: Story) -> None:
    story.got("u1", 1, 2, 3, 4)
    story.stored("", "", None, kind="void")
    assert story.judged(checks.Everything).is_kept
    story.said("u0", "m6")
    assert "never got [5, 6]" in "".join(claims_of(story.judged(checks.Everything)))


def test_a_probe_that_did_not_arrive_and_people_who_do_not_settle_are_noticed(story: Story) -> None:
    story.note("event", "probed", seq=4, value=["u1-d0"])
    story.note("event", "unsettled", text="somebody waits")
    assert story.judged(checks.Everything).broken == 2


# --- I10 ------------------------------------------------------------------------------------------


def test_a_page_that_lacks_what_was_acknowledged_before_is_noticed(story: Story) -> None:
    story.got("u1", 1, 2, 3, f="history")
    assert "4 was acknowledged before" in "".join(claims_of(story.judged(checks.AtOnce)))


def with_an_open_slot() -> Story:
    """Two are acknowledged; what stands between them is not."""
    story = Story()
    story.said("u0", "m1")
    story.send("u1", "slow", None)
    story.stored("u1", "slow")
    story.said("u0", "m3")
    return story


def test_a_page_may_end_at_an_open_slot_for_a_while_and_not_for_long() -> None:
    story = with_an_open_slot()
    story.got("u2", 1, f="history")
    assert story.judged(checks.AtOnce).is_kept
    story._now_s += checks.OPEN_S
    story.got("u2", 1, f="history")
    assert story.judged(checks.AtOnce).broken == 1


def test_a_slot_may_stay_open_for_longer_while_the_tables_take_no_writes() -> None:
    story = with_an_open_slot()
    story.note("event", "fault", text="tables-locked", value={"lasts_s": 3.0})
    story._now_s += checks.OPEN_S + 1
    story.got("u2", 1, f="history")
    assert story.judged(checks.AtOnce).is_kept
    story._now_s += 3.0
    story.got("u2", 1, f="history")
    assert story.judged(checks.AtOnce).broken == 1


def test_a_page_that_is_full_or_looks_back_need_not_reach_the_end(story: Story) -> None:
    story.got("u1", 1, 2, f="history", place={"after_seq": 0, "limit": 2})
    story.got("u1", 1, 2, f="history", place={"before_seq": 3, "limit": 20})
    assert story.judged(checks.AtOnce).state == "not looked at"


@pytest.mark.parametrize(("last_seq", "is_stale", "broken"), [(4, False, 0), (3, False, 1), (3, True, 0)])
def test_an_inbox_shows_what_was_acknowledged_before(story: Story, last_seq: int, is_stale: bool, broken: int) -> None:
    op = story.invoke("inbox", user_id="u1", conversation_id="")
    value = {"rows": [[C, last_seq, 0, 0, 0]], "stale": is_stale, "total": 0}
    story.note("ok", "inbox", op=op, user_id="u1", conversation_id="", value=value)
    assert story.judged(checks.AtOnce).broken == broken


# --- I14 ------------------------------------------------------------------------------------------


def test_a_stranger_who_is_let_in_or_shown_something_is_noticed(story: Story) -> None:
    story.note("fail", "knock", user_id="stranger", seq=404)
    assert story.judged(checks.Private).is_kept
    story.note("ok", "knock", user_id="stranger", seq=200)
    story.got("stranger", 1)
    assert story.judged(checks.Private).broken == 2


def churned(history: str = "channel") -> Story:
    story = Story(history, is_churned=True)
    story.said("u0", "m1")
    op = story.invoke("leave", user_id="u0", value="u1")
    story.changed("removed", "u1")  # 2
    story.note("ok", "leave", op=op, user_id="u0", value="u1")
    story.said("u0", "m3")
    return story


def test_who_left_sees_nothing_of_the_time_after() -> None:
    story = churned()
    story.got("u1", 1)
    assert story.judged(checks.Private).is_kept
    story.got("u1", 3)
    assert "after having left" in "".join(claims_of(story.judged(checks.Private)))


def test_who_comes_back_may_see_it_then_and_not_before() -> None:
    story = churned()
    story.got("u1", 3)
    op = story.invoke("join", user_id="u0", value="u1")
    story.changed("added", "u1")  # 4
    story.note("ok", "join", op=op, user_id="u0", value="u1")
    story.got("u1", 3)
    assert story.judged(checks.Private).broken == 1


def test_a_group_hides_the_time_in_which_somebody_was_away() -> None:
    story = churned("group")
    op = story.invoke("join", user_id="u0", value="u1")
    story.changed("added", "u1")
    story.note("ok", "join", op=op, user_id="u0", value="u1")
    story.got("u1", 1, 4)
    assert story.judged(checks.Private).is_kept
    story.got("u1", 3, f="history")
    assert "from before they joined" in "".join(claims_of(story.judged(checks.Private)))
