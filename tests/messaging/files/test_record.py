from __future__ import annotations

import pytest

from tidings.messaging.files.record import FileRecord, file_folder, parse_object, root_of
from tidings.stores.blobs.ports import Part


@pytest.mark.parametrize("conversation_id", ["c1", "A.b@C-d", "x" * 128, "..a"])
def test_the_name_of_an_object_says_whose_it_is(conversation_id: str) -> None:
    folder = file_folder("tables1", conversation_id, "f1")
    assert folder.startswith(root_of("tables1") + "/")
    assert parse_object(f"{folder}/0000") == (conversation_id, "f1", "0000")
    assert parse_object(f"{folder}.new/0000") == (conversation_id, "f1.new", "0000")


def test_an_object_of_another_kind_has_no_conversation() -> None:
    assert parse_object("tables1.files/x") is None


def test_the_parts_of_a_record_cover_its_bytes() -> None:
    record = FileRecord("alice", "a", "a/b", 10, 4)
    assert record.parts == [Part(0, 4), Part(4, 8), Part(8, 10)]
    assert FileRecord("alice", "a", "a/b", 0, 1).parts == [Part(0, 0)]
