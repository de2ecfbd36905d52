"""The checks of webhooks, streamed messages and scheduled messages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.small_history import Story, claims_of
from tidings_proof.judge import checks_agents as checks

C = "c1"


def hook(story: Story, key: str, seqs: list[int], status: int = 200) -> None:
    story.note("event", "hook", conversation_id=C, text=key, value=[status, seqs])


@pytest.fixture
def hooked() -> Story:
    """Three entries came; the second request was answered at the third try."""
    story = Story()
    hook(story, "1-2", [1, 2])
    hook(story, "3-3", [3], 503)
    hook(story, "3-3", [3], 0)
    hook(story, "3-3", [3])
    hook(story, "3-3", [3])
    return story


def heads(story: Story, head: int) -> None:
    story.note("event", "hook-heads", value={C: head})


def test_a_webhook_that_got_everything_is_kept(hooked: Story) -> None:
    heads(hooked, 3)
    finding = hooked.judged(checks.Hooked)
    assert finding.is_kept, claims_of(finding)


def test_an_entry_that_never_came_is_noticed(hooked: Story) -> None:
    heads(hooked, 4)
    assert hooked.judged(checks.Hooked).broken == 1


@pytest.mark.parametrize(
    ("key", "seqs", "why"),
    [
        ("5-5", [5], "an entry was skipped"),
        ("4-6", [4, 6], "one was left out of a request"),
        ("3-3", [4], "the key has other entries"),
        ("2-3", [2, 3], "entries come under another key"),
    ],
)
def test_a_wrong_request_is_noticed(hooked: Story, key: str, seqs: list[int], why: str) -> None:
    hook(hooked, key, seqs)
    assert hooked.judged(checks.Hooked).is_broken, why


def test_a_request_that_was_not_taken_moves_nothing(hooked: Story) -> None:
    hook(hooked, "4-4", [4], 503)
    hook(hooked, "5-5", [5])
    assert hooked.judged(checks.Hooked).is_broken


def seen(story: Story, entries: list[list[Any]], unread: int) -> None:
    story.note("event", "agents-log", value=[entries, unread])


@pytest.mark.parametrize(
    ("entries", "unread", "broken"),
    [
        ([[1, "message", "s1", "whole text", "done"]], 1, 0),
        ([[1, "message", "s1", "whole", "done"]], 1, 1),
        ([[1, "message", "s1", "whole text", "streaming"]], 1, 1),
        ([], 0, 1),
        ([[1, "message", "s1", "whole text", "done"], [2, "message", "s2", "left", "interrupted"]], 2, 0),
        ([[1, "message", "s1", "whole text", "done"], [2, "message", "s2", "other", "interrupted"]], 2, 1),
        ([[1, "message", "s1", "whole text", "done"], [2, "edit", "end", "whole text", "done"]], 2, 1),
    ],
)
def test_streams_end_as_written_and_count_once(entries: list[list[Any]], unread: int, broken: int) -> None:
    story = Story()
    story.note("event", "stream", message_id="s1", text="whole text", value=True)
    story.note("event", "stream", message_id="s2", text="left in the middle", value=False)
    seen(story, entries, unread)
    assert story.judged(checks.Streamed).broken == broken


@pytest.mark.parametrize(
    ("entries", "broken"),
    [
        ([[1, "message", "l1", "later", None]], 0),
        ([], 1),
        ([[1, "message", "l1", "later", None], [2, "message", "l1", "later", None]], 1),
        ([[1, "message", "l1", "another", None]], 1),
    ],
)
def test_a_scheduled_message_is_there_once(entries: list[list[Any]], broken: int) -> None:
    story = Story()
    story.note("event", "scheduled", message_id="l1", text="later", value=1)
    seen(story, entries, len(entries))
    assert story.judged(checks.Scheduled).broken == broken


def test_without_a_last_look_nothing_is_judged() -> None:
    story = Story()
    story.note("event", "scheduled", message_id="l1", text="later", value=1)
    assert story.judged(checks.Scheduled).state == "not looked at"
