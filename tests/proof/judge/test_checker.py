"""The judge: memberships from the log, findings in order, all violations counted and some of them told."""

from __future__ import annotations

import re

from tests.support.paths import ROOT
from tests.support.small_history import C, Story
from tidings_proof.judge.checker import SHOWN_MAX, Check, Interval, Truth, judge
from tidings_proof.judge.history import Record
from tidings_proof.torture.run import CHECKS


class Grumpy(Check):
    id, about, wants = "I2", "nothing is ever right", frozenset(("send",))

    def take(self, record: Record) -> None:
        self.blame(record.message_id, record.at_s)


class Content(Check):
    id, about = "I1", "all is well"


def test_memberships_are_read_from_the_log() -> None:
    story = Story(is_churned=True)
    story.said("u0", "a")
    story.changed("removed", "u1")
    story.changed("added", "u1")
    story.changed("added", "u9")
    story.changed("left", "u9")
    truth = Truth(story.dump(), {C: story.conversation}, "u2")
    assert truth.intervals[C, "u1"] == [Interval(0, 2), Interval(3, None)]
    assert truth.intervals[C, "u9"] == [Interval(4, 5)]
    assert truth.seq_of[C, "u0", "a"] == 1 and not truth.is_static(C)


def test_crossings_of_the_line_are_counted_in_both_directions() -> None:
    story = Story(is_churned=True)
    count = len(story.conversation.members)
    story.changed("added", "u8")  # above the line
    story.changed("added", "u9")
    story.changed("removed", "u9")
    for user_id in ("u8", "u1"):
        story.changed("removed", user_id)  # below four fifths of it, with the second
    story.changed("added", "u1")  # not yet above it
    truth = Truth(story.dump(), {C: story.conversation}, "u2")
    assert truth.crossings(count) == (1, 1)
    assert truth.crossings(count - 1) == (0, 0), "it was large from the beginning, and stays"
    assert truth.crossings(count + 1) == (1, 1)


def test_a_check_is_shown_what_it_wants_and_findings_are_in_order() -> None:
    story = Story()
    for n in range(SHOWN_MAX + 5):
        story.send("u0", f"m{n}", None)
    story.note("event", "ack", user_id="u0", value={})
    truth = Truth(story.dump(), {C: story.conversation}, "u2")
    first, second = judge(story.records, [Grumpy(truth), Content(truth)])
    assert (first.id, first.state, second.id, second.state) == ("I1", "not looked at", "I2", "broken")
    assert not first.is_kept and not first.is_broken and not second.is_kept
    assert second.broken == 2 * (SHOWN_MAX + 5) and len(second.violations) == SHOWN_MAX


def test_there_is_a_check_for_every_promise() -> None:
    numbers = sorted(int(check.id[1:]) for check in CHECKS)
    page = (ROOT / "docs" / "inside" / "reliability.md").read_text("utf-8")
    assert numbers == sorted(set(numbers))
    assert numbers == sorted(int(number) for number in re.findall(r"^\| I(\d+) \|", page, re.MULTILINE))
    assert all(check.about for check in CHECKS)
