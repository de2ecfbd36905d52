"""The values that every part shares: kinds, content, and what is derived from them."""

from __future__ import annotations

from typing import get_args

import pytest

from tidings.bounds import PREVIEW_CHARS_MAX
from tidings.model import KINDS, Content, ContentPatch, Entry, EntryKind, digest_of, preview_of, void_at


def test_the_table_has_every_kind() -> None:
    assert tuple(KINDS) == get_args(EntryKind)


def test_a_deleted_message_counts_no_longer_and_still_has_its_place_in_the_inbox() -> None:
    message = Entry("c", 1, "message", 5)
    deleted = Entry("c", 1, "message", 5, is_deleted=True)
    assert message.counts and message.bumps and message.changes_counts
    assert not deleted.counts and deleted.bumps


def test_only_a_message_counts_and_a_delete_takes_back() -> None:
    kinds = {kind: Entry("c", 1, kind, 5) for kind in KINDS}
    assert [kind for kind, entry in kinds.items() if entry.counts] == ["message"]
    assert [kind for kind, entry in kinds.items() if entry.changes_counts] == ["message", "delete"]
    assert [kind for kind, entry in kinds.items() if entry.changes_members] == ["member"]
    assert [kind for kind, entry in kinds.items() if entry.is_void] == ["void"]
    assert void_at("c", 1, 5) == kinds["void"]


def test_the_digest_covers_all_of_a_content() -> None:
    assert digest_of(None) == digest_of(Content("")) != digest_of(Content("x"))
    assert digest_of(Content("x")) != digest_of(Content("x"), "edit 1\0")
    contents = [Content("x"), Content("x", {"a": 1}), Content("x", {"a": 2}), Content("x", reply_to=1)]
    assert len({digest_of(content) for content in contents}) == len(contents)


def test_the_digest_depends_on_no_order_of_keys_and_on_no_flag() -> None:
    assert digest_of(Content("x", {"a": 1, "b": 2})) == digest_of(Content("x", {"b": 2, "a": 1}))
    assert digest_of(Content("x", silent=True)) == digest_of(Content("x"))


def test_a_silent_message_counts_for_nobody_and_moves_nothing() -> None:
    silent = Entry("c", 1, "message", 5, is_uncounted=True)
    assert not silent.counts and not silent.bumps


def test_an_edit_replaces_the_fields_that_it_names_and_keeps_the_others() -> None:
    content = Content("old", {"a": 1}, reply_to=7)
    assert ContentPatch("new").apply(content) == Content("new", {"a": 1}, reply_to=7)
    assert ContentPatch(data=None).apply(content) == Content("old", reply_to=7)
    assert ContentPatch("new").apply(None) == Content("new")


@pytest.mark.parametrize(
    ("text", "preview"),
    [
        (None, None),
        ("", ""),
        ("hello", "hello"),
        ("one\ntwo\r\nthree\rfour", "one two three four"),
        ("x" * (PREVIEW_CHARS_MAX + 1), "x" * PREVIEW_CHARS_MAX),
    ],
)
def test_a_preview_is_the_beginning_on_one_line(text: str | None, preview: str | None) -> None:
    assert preview_of(Content(text)) == preview
    assert preview_of(None) is None
