"""The content column: what is stored comes back, in the form that older rows have."""

from __future__ import annotations

from tidings.model import Content, File, MemberChange
from tidings.stores.tables.stored_content import LastMessage, from_json, last_of, read_last, to_json


def test_a_content_is_stored_under_the_names_of_its_fields() -> None:
    assert to_json(Content("é")) == '{"text":"é"}'.encode()
    assert from_json("message", '{"text":"é"}') == (Content("é"), None)
    assert from_json("edit", to_json(Content(""))) == (Content(""), None)


def test_a_member_change_is_stored_in_the_same_column() -> None:
    change = MemberChange("added", ("bob",))
    stored = to_json(None, change)
    assert stored == b'{"member":{"action":"added","user_ids":["bob"],"role":null}}'
    assert from_json("member", stored) == (None, change)


def test_nothing_is_stored_as_nothing() -> None:
    assert to_json(None) is None
    assert from_json("message", None) == from_json("void", None) == (None, None)


def test_a_message_with_files_is_stored_with_their_number() -> None:
    stored = last_of("bob", Content("hi", files=(File("f1"), File("f2"))), is_deleted=False)
    assert stored == '{"sender_id":"bob","files":2}'
    assert read_last(stored) == LastMessage("bob", 2)


def test_a_deleted_message_keeps_nothing_but_its_sender() -> None:
    stored = last_of("bob", Content("hi", files=(File("f1"),)), is_deleted=True)
    assert read_last(stored) == LastMessage("bob", deleted=True)
