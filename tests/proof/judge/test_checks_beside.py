"""The checks of filters, blocks, reactions, pins and saved messages, and of texts that must be nowhere."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.small_history import C, Story, claims_of
from tidings_proof.judge import checks_beside as checks
from tidings_proof.judge.checker import Check
from tidings_proof.judge.history import Seen


@pytest.fixture
def story() -> Story:
    told = Story()
    told.said("u0", "a")
    told.said("u1", "b")
    told.unread = {"u0": (1, 2), "u1": (1, 1), "u2": (2, 1)}
    return told


def act(story: Story, f: str, user_id: str, value: Any, end: str = "ok") -> None:
    op = story.invoke(f, user_id=user_id, value=value)
    story.note(end, f, op=op, user_id=user_id, value=value)


@pytest.mark.parametrize("check", [checks.Filtered, checks.Beside], ids=lambda check: check.__name__)
def test_a_good_history_is_kept(story: Story, check: type[Check]) -> None:
    story.note("event", "filtered", user_id="u1", text="unread", value=[[C, 1, 0, False, False, False]])
    finding = story.judged(check)
    assert finding.is_kept, claims_of(finding)


# --- I22 ------------------------------------------------------------------------------------------


def test_a_count_with_messages_of_a_blocked_person_is_noticed_in_the_end(story: Story) -> None:
    story.wrong["blocks"] = {"u2": frozenset({"u0"})}
    assert story.judged(checks.NotCounted).broken == 1, "2 are shown, and one of them is of u0"
    story.wrong["blocks"] = {"u2": frozenset({"u0"})}
    story.unread["u2"] = (1, 2)
    assert story.judged(checks.NotCounted).is_kept


@pytest.mark.parametrize(("unread", "broken"), [(1, 0), (2, 1)])
def test_who_has_blocked_somebody_sees_no_more_than_the_others_sent(story: Story, unread: int, broken: int) -> None:
    act(story, "block", "u2", ["u0", True])
    op = story.invoke("inbox", user_id="u2", conversation_id="", at_s=100.0)
    value = {"rows": [[C, 2, unread, 0, 0]], "stale": False, "total": unread}
    story.note("ok", "inbox", op=op, user_id="u2", conversation_id="", value=value, at_s=101.0)
    assert story.judged(checks.NotCounted).broken == broken


def test_a_block_that_is_young_or_was_taken_back_is_not_held_against_the_server(story: Story) -> None:
    value = {"rows": [[C, 2, 2, 0, 0]], "stale": False, "total": 2}
    act(story, "block", "u2", ["u0", True])
    for at_s in (10.0, 200.0):
        op = story.invoke("inbox", user_id="u2", conversation_id="", at_s=at_s)
        story.note("ok", "inbox", op=op, user_id="u2", conversation_id="", value=value, at_s=at_s)
        act(story, "block", "u2", ["u0", False], end="info")
    assert story.judged(checks.NotCounted).broken == 0


# --- I25 ------------------------------------------------------------------------------------------


def test_a_row_that_does_not_fit_its_filter_is_noticed(story: Story) -> None:
    story.note("event", "filtered", user_id="u1", text="mentions", value=[[C, 1, 0, False, False, False]])
    assert story.judged(checks.Filtered).broken == 1


def test_a_filter_that_leaves_a_conversation_out_is_noticed(story: Story) -> None:
    dump = story.dump()
    shown = {user_id: msgspec.structs.replace(one, filters={"unread": []}) for user_id, one in dump.shown.items()}
    story.wrong["shown"] = shown
    assert story.judged(checks.Filtered).broken == 3


# --- I24 ------------------------------------------------------------------------------------------


def seen_with(story: Story, *more: Seen, **fields: Any) -> None:
    """What everybody sees: the first message with these fields, and more entries."""
    shown = {}
    for user_id, one in story.dump().shown.items():
        first, *rest = one.histories[C]
        entries = [msgspec.structs.replace(first, **fields), *rest, *more]
        shown[user_id] = msgspec.structs.replace(one, histories={C: entries})
    story.wrong["shown"] = shown


REACTED = Seen(3, "reaction", "u1", None, target_seq=1, changes=(("+1", ("u1", "u2"), ()),))
TAKEN = Seen(4, "reaction", "u1", None, target_seq=1, changes=(("+1", (), ("u2",)),))
PINNED = Seen(5, "pin", "u1", None, target_seq=1, is_pinned=True)


def test_reactions_and_pins_are_folded_from_the_log(story: Story) -> None:
    seen_with(story, REACTED, TAKEN, PINNED, reactions={"+1": 1}, is_pinned=True)
    assert story.judged(checks.Beside).is_kept


@pytest.mark.parametrize("fields", [{}, {"reactions": {"+1": 2}}, {"reactions": {"+1": 1}, "is_pinned": True}])
def test_a_summary_that_the_log_does_not_say_is_noticed(story: Story, fields: dict[str, Any]) -> None:
    seen_with(story, REACTED, TAKEN, **fields)
    assert story.judged(checks.Beside).broken == 3, "one for each member"


def test_the_last_act_of_a_person_decides_unless_nobody_knows_what_became_of_one(story: Story) -> None:
    act(story, "react", "u1", [1, "+1", True])
    assert story.judged(checks.Beside).broken == 1
    act(story, "react", "u1", [1, "+1", False], end="info")
    assert story.judged(checks.Beside).broken == 0
    act(story, "save", "u1", [1, "", True])
    assert story.judged(checks.Beside).broken == 1


# --- I21 ------------------------------------------------------------------------------------------


def test_a_text_that_remains_is_held_against_the_server(story: Story) -> None:
    story.wrong |= {"looked_for": 4, "remains": ["tables.db holds it"]}
    assert story.judged(checks.Gone).broken == 1
