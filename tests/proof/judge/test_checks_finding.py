"""The checks of files and of search: each thing that is wrong is noticed, once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.small_history import C, Story, claims_of
from tidings_proof.judge.checks_finding import Files, Search
from tidings_proof.judge.dump_finding import File, Sought
from tidings_proof.judge.history import Seen
from tidings_proof.people.finding import Shared, Told

SHARED = Shared("f1", "the content", C, "u0", "a")
TOLD = Told("w1", C, "u0", "a")


def carrying(*files: str, **fields: Any) -> Story:
    """One message, which every member is shown with these files."""
    story = Story()
    story.stored("u0", "a", **fields)
    shown = story.dump().shown
    story.wrong["shown"] = {
        user_id: msgspec.structs.replace(
            one, histories={C: [msgspec.structs.replace(seen, files=files) for seen in one.histories[C]]}
        )
        for user_id, one in shown.items()
    }
    return story


@pytest.mark.parametrize(
    ("files", "content", "is_open", "broken"),
    [
        (("f1",), "the content", False, 0),
        (("f1",), "another", False, 1),
        (("f1",), None, False, 1),
        ((), "the content", False, 1),
        (("f1", "f1"), "the content", False, 1),
        (("f1",), "the content", True, 1),
    ],
)
def test_a_file_is_in_its_message_once_and_its_readers_alone_read_it(
    files: tuple[str, ...], content: str | None, is_open: bool, broken: int
) -> None:
    story = carrying(*files)
    story.wrong["files"] = [File(SHARED, content, is_open)]
    finding = story.judged(Files)
    assert (finding.looked, finding.broken) == (1, broken), claims_of(finding)


@pytest.mark.parametrize(
    ("stored", "broken"),
    [({"f1": "the content"}, 0), ({}, 1), ({"f1": "another"}, 1), ({"f1": "the content", "f2": "of nobody"}, 1)],
)
def test_the_blobs_hold_the_files_of_messages_that_stand_and_no_other(stored: dict[str, str], broken: int) -> None:
    story = carrying("f1")
    story.wrong |= {"files": [File(SHARED, "the content", False)], "stored": stored}
    assert story.judged(Files).broken == broken


def test_an_edit_shows_the_files_of_its_message_and_carries_none_of_its_own() -> None:
    story = carrying("f1")
    edit = Seen(2, "edit", "u0", "b", "better", target_seq=1, files=("f1",))
    for one in story.wrong["shown"].values():
        one.histories[C].append(edit)
    story.wrong["files"] = [File(SHARED, "the content", False)]
    assert story.judged(Files).is_kept


def test_a_file_goes_with_its_message_and_one_that_was_never_sent_is_in_none() -> None:
    story = carrying(is_deleted=True)
    story.wrong["files"] = [File(SHARED, None, False), File(SHARED._replace(message_id="never"), "", False)]
    assert story.judged(Files).is_kept
    story.wrong["files"] = [File(SHARED, "the content", False)]
    assert story.judged(Files).broken == 1
    story = carrying("f1", is_deleted=True)
    assert story.judged(Files).broken == 1


@pytest.mark.parametrize(
    ("fields", "hits", "by_stranger", "broken"),
    [
        ({}, [(C, 1)], [], 0),
        ({}, [], [], 1),
        ({}, [(C, 1)], [(C, 1)], 1),
        ({"is_deleted": True}, [], [], 0),
        ({"is_deleted": True}, [(C, 1)], [], 1),
        ({"edited_ms": 5}, [], [], 0),
        ({"edited_ms": 5}, [(C, 1)], [], 1),
    ],
)
def test_in_the_end_a_word_is_found_where_it_stands_and_nowhere_else(
    fields: dict[str, Any], hits: list[tuple[str, int]], by_stranger: list[tuple[str, int]], broken: int
) -> None:
    story = Story()
    story.stored("u0", "a", **fields)
    story.wrong["sought"] = [Sought(TOLD, hits, by_stranger)]
    assert story.judged(Search).broken == broken


def test_at_any_moment_a_deleted_text_is_found_by_nobody_and_a_stranger_finds_nothing() -> None:
    story = Story()
    story.note("ok", "delete", user_id="u0", value=1, at_s=10.0)
    story.note("event", "found", user_id="u1", text="w1", value=[9.0, [[C, 1]]])
    assert story.judged(Search).is_kept, "the search began before the answer to the delete"
    story.note("event", "found", user_id="u1", text="w1", value=[11.0, [[C, 1]]])
    assert story.judged(Search).broken == 1
    story.note("event", "found", user_id="stranger", text="w1", value=[1.0, [[C, 1]]])
    assert story.judged(Search).broken == 2
