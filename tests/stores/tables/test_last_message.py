"""The facts about a last message: stored as one small text, and read back."""

from __future__ import annotations

from tidings.model import Content, File
from tidings.stores.tables.last_message import LastMessage, last_of, read_last


def test_a_message_with_files_is_stored_with_their_number() -> None:
    stored = last_of("bob", Content("hi", files=(File("f1"), File("f2"))), is_deleted=False)
    assert stored == '{"sender_id":"bob","files":2}'
    assert read_last(stored) == LastMessage("bob", 2)


def test_a_deleted_message_keeps_nothing_but_its_sender() -> None:
    stored = last_of("bob", Content("hi", files=(File("f1"),)), is_deleted=True)
    assert read_last(stored) == LastMessage("bob", deleted=True)
