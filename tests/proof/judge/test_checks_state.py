"""The checks of counts, inboxes, ticks and of the nodes themselves."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.small_history import C, Story, claims_of
from tidings.messaging.unread.verify import Wrong
from tidings.model import Status
from tidings_proof.judge import checks_state as checks
from tidings_proof.judge.checker import Check


@pytest.fixture
def story() -> Story:
    told = Story()
    told.said("u0", "a")
    told.said("u1", "b")
    told.unread = {"u0": (1, 2), "u1": (1, 1), "u2": (2, 1)}
    return told


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.id)
def test_a_good_history_is_kept(story: Story, check: type[Check]) -> None:
    story.note("invoke", "ack", user_id="u1", value={C: 2})
    story.note("event", "receipt", user_id="u0", line=1, value=["u1", 2, 0])
    story.note("event", "usage", value=["n0", 80 << 20, 40])
    story.note("event", "recovered", value=0.5)
    finding = story.judged(check)
    assert finding.is_kept and finding.looked > 0, claims_of(finding)


# --- I11 ------------------------------------------------------------------------------------------


def status(user_id: str, **fields: Any) -> Status:
    return Status(conversation_id=C, user_id=user_id, **fields)


def test_a_count_that_is_not_what_the_log_says_is_noticed(story: Story) -> None:
    story.unread["u2"] = (1, 2)
    assert story.judged(checks.Counts).broken == 2  # the row, and the badge


def test_cursor_ranges_own_and_deleted_messages_do_not_count(story: Story) -> None:
    story.said("u0", "c")
    story.said("u0", "d")
    story.entries[3] = msgspec.structs.replace(story.entries[3], is_deleted=True, content=None)
    story.statuses = {"u1": status("u1", cursor_seq=1), "u2": status("u2", cursor_seq=0, ranges=((1, 1), (3, 3)))}
    story.unread = {"u0": (1, 2), "u1": (1, 3), "u2": (1, 2)}
    finding = story.judged(checks.Counts)
    assert finding.is_kept, claims_of(finding)


def test_what_verify_says_is_held_against_the_server(story: Story) -> None:
    story.wrong["wrong"] = [Wrong("u1", C, "unread", 1, 2)]
    assert story.judged(checks.Counts).broken == 1


@pytest.mark.parametrize(("unread", "broken"), [(2, 0), (1, 1), (4, 1)])
def test_who_never_reads_sees_at_least_the_acknowledged_and_at_most_the_sent(
    story: Story, unread: int, broken: int
) -> None:
    story.send("u0", "maybe", None)
    op = story.invoke("inbox", user_id="u2", conversation_id="")
    value = {"rows": [[C, 2, unread, 0, 0]], "stale": False, "total": unread}
    story.note("ok", "inbox", op=op, user_id="u2", conversation_id="", value=value)
    assert story.judged(checks.Counts).broken == broken


def test_nothing_is_held_against_a_node_with_another_cap(story: Story) -> None:
    value = {"rows": [[C, 2, 0, 0, 0]], "stale": False, "total": 0}
    for settings, broken in (("changed", 0), ("usual", 1)):
        story.note("event", "settings", text=settings)
        op = story.invoke("inbox", user_id="u2", conversation_id="")
        story.note("ok", "inbox", op=op, user_id="u2", conversation_id="", value=value)
        assert story.judged(checks.Counts).broken == broken


def test_of_more_unread_than_are_kept_the_cap_is_shown(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "UNREAD_CAP", 1)
    op = story.invoke("inbox", user_id="u2", conversation_id="")
    value = {"rows": [[C, 2, 1, 0, 0]], "stale": False, "total": 1}
    story.note("ok", "inbox", op=op, user_id="u2", conversation_id="", value=value)
    assert story.judged(checks.Counts).broken == 2  # u2 has two unread, and is shown both: the row, and the badge
    story.unread["u2"] = (1, 1)
    assert story.judged(checks.Counts).is_kept


@pytest.mark.parametrize(("mentioned", "shown", "is_kept"), [(1, 0, True), (1, 1, False), (2, 1, True), (2, 0, False)])
def test_above_the_cap_mentions_count_among_the_newest(
    story: Story, monkeypatch: pytest.MonkeyPatch, mentioned: int, shown: int, is_kept: bool
) -> None:
    monkeypatch.setattr(checks, "UNREAD_CAP", 1)
    story.entries[mentioned - 1] = msgspec.structs.replace(story.entries[mentioned - 1], mentions=("u2",))
    story.unread["u2"] = (1, 1)
    before = story.dump().shown
    inbox = [{**before["u2"].inbox[0], "mention_count": shown}]
    story.wrong["shown"] = before | {"u2": msgspec.structs.replace(before["u2"], inbox=inbox, total_mentions=shown)}
    assert story.judged(checks.Counts).is_kept == is_kept


def read(story: Story, up_to: int, reached: int, user_id: str = "u1") -> None:
    op = story.invoke("read", user_id=user_id, value={"up_to_seq": up_to})
    story.note("ok", "read", op=op, user_id=user_id, value={"read_seq": reached})


def test_a_cursor_that_goes_back_is_noticed(story: Story) -> None:
    story.statuses["u1"], story.unread["u1"] = status("u1", cursor_seq=2), (0, None)
    read(story, 2, 2)
    read(story, 1, 2)
    assert story.judged(checks.Counts).is_kept
    read(story, 1, 1)
    assert "went back from 2 to 1" in "".join(claims_of(story.judged(checks.Counts)))


def test_an_acknowledged_read_that_the_table_does_not_have_is_noticed(story: Story) -> None:
    read(story, 2, 2)
    assert "the cursor is None" in "".join(claims_of(story.judged(checks.Counts)))


def test_who_marks_things_unread_may_lower_the_cursor(story: Story) -> None:
    story.statuses["u1"] = status("u1", cursor_seq=0)
    story.invoke("unread", user_id="u1", value={"from_seq": 1})
    read(story, 2, 2)
    read(story, 1, 1)
    assert story.judged(checks.Counts).is_kept


# --- I12, I13 -------------------------------------------------------------------------------------


def test_an_inbox_that_lacks_a_conversation_or_has_one_too_many_is_noticed(story: Story) -> None:
    dump = story.dump()
    story.wrong["rows"] = dump.rows | {"u1": []}
    assert story.judged(checks.Inboxes).broken == 2  # a member without a row, and shown what it has no row for
    story.wrong["rows"] = dump.rows
    story.wrong["shown"] = dump.shown | {"u1": msgspec.structs.replace(dump.shown["u1"], inbox=[])}
    assert story.judged(checks.Inboxes).broken == 1


def test_a_tick_that_nobody_gave_is_noticed(story: Story) -> None:
    story.note("invoke", "ack", user_id="u1", value={C: 1})
    story.note("event", "receipt", user_id="u0", line=1, value=["u1", 2, 0])
    assert "said 1" in "".join(claims_of(story.judged(checks.Ticks)))


def test_a_tick_that_goes_back_and_a_read_without_delivery_are_noticed(story: Story) -> None:
    story.note("invoke", "ack", user_id="u1", value={C: 2})
    story.invoke("read", user_id="u1", value={"up_to_seq": 2})
    story.note("event", "receipt", user_id="u0", line=1, value=["u1", 2, 2])
    assert story.judged(checks.Ticks).is_kept
    story.note("event", "receipt", user_id="u0", line=1, value=["u1", 1, 1])
    story.note("event", "receipt", user_id="u0", line=2, value=["u1", 1, 2])
    assert story.judged(checks.Ticks).broken == 2


def test_a_tick_that_the_table_has_and_nobody_gave_or_lacks_is_noticed(story: Story) -> None:
    story.statuses["u1"] = status("u1", delivered_seq=2)
    assert story.judged(checks.Ticks).broken == 1
    story.note("invoke", "ack", user_id="u1", value={C: 2})
    assert story.judged(checks.Ticks).is_kept
    story.statuses["u1"] = status("u1", delivered_seq=1)
    assert story.judged(checks.Ticks).is_kept, "nobody answered: it may be lost"
    story.note("ok", "ack", user_id="u1", value={C: 2})
    assert story.judged(checks.Ticks).broken == 1


# --- I15, I16, I18 --------------------------------------------------------------------------------


def test_a_node_that_grows_is_noticed(story: Story) -> None:
    story.note("event", "usage", value=["n0", checks.RSS_BYTES_MAX + 1, checks.FILES_MAX + 1])
    assert story.judged(checks.Bounded).broken == 2


def test_work_that_is_left_is_noticed(story: Story) -> None:
    story.wrong["left"] = ["open:{n0-1}: c1"]
    assert list(claims_of(story.judged(checks.Finished))) == ["open:{n0-1}: c1"]


def test_a_slow_recovery_a_fault_without_end_and_a_strange_answer_are_noticed(story: Story) -> None:
    story.note("event", "recovered", value=checks.RECOVERED_S + 1)
    story.note("event", "fault-error", text="n0 ended")
    story.note("event", "strange", text="500 Internal Server Error")
    assert story.judged(checks.Available).broken == 3


def test_what_is_left_under_way_is_not_looked_at_where_the_stores_are_not_ours(story: Story) -> None:
    story.wrong["is_raw"] = False
    assert story.judged(checks.Finished).state == "not looked at"
