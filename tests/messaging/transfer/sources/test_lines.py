"""Lines: an entry is the same after it was a line."""

from __future__ import annotations

import msgspec
import pytest

from tidings.errors import BadRequest
from tidings.messaging.transfer.sources.lines import encode, entry_of_line, line_of_entry
from tidings.model import Content, Entry, MemberChange, void_at

ENTRIES = [
    Entry("c", 1, "message", 5, "m1", "ann", "ben", Content("hi", {"a": [1]}, mentions=("ben",)), 4, mentions=("ben",)),
    Entry("c", 2, "message", 5, "m2", "ann", is_deleted=True, mentions=("ben",), is_uncounted=True),
    Entry("c", 3, "edit", 6, "m3", "ann", content=Content("ho"), target_seq=1),
    Entry("c", 4, "reaction", 7, "m4", "ben", content=Content(reactions=(("👍", ("ben",), ()),)), target_seq=1),
    Entry("c", 5, "member", 8, "m5", "ann", member=MemberChange("added", ("carl",), "member")),
    Entry("c", 6, "message", 9, "m6", "ben", content=Content("re", thread_seq=1), thread_seq=1, is_uncounted=True),
    Entry("c", 8, "message", 9, "m8", "ben", is_deleted=True, thread_seq=1, is_uncounted=True, edited_ms=12),
    void_at("c", 7, 9),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.seq_no}-{entry.kind}")
def test_an_entry_comes_back_from_its_line(entry: Entry) -> None:
    assert entry_of_line(msgspec.json.decode(encode(line_of_entry(entry)))) == entry


def test_a_line_says_only_what_there_is() -> None:
    assert encode(line_of_entry(void_at("c", 7, 9))) == (
        b'{"type":"message","conversation_id":"c","seq":7,"kind":"void","sent_at":9}\n'
    )


@pytest.mark.parametrize("wrong", [{"kind": "song"}, {"text": 7}, {"kind": "member", "member": {"action": "x"}}])
def test_a_wrong_line_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        entry_of_line({"conversation_id": "c", "seq": 1, "sent_at": 1} | wrong)
