from __future__ import annotations

from tidings.stores.tables.search import END, Document, mark_at, marks_of


def mark_of(conversation_id: str, document: Document) -> int:
    (mark,) = marks_of(conversation_id, [document])
    return mark


def test_marks_are_ordered_by_time_and_fit_into_a_row_number() -> None:
    early, late = Document(9, 1_700_000_000_000, "a", ""), Document(1, 1_700_000_000_001, "a", "")
    assert (
        mark_at(1_700_000_000_000) <= mark_of("c", early) < mark_at(1_700_000_000_001) <= mark_of("c", late) < 1 << 63
    )
    assert mark_of("c", early) != mark_of("d", early)
    assert mark_at(-5) == 0
    of_year_9999 = Document(1, 253_402_300_799_000, "a", "")
    assert mark_of("c", late) < mark_of("c", of_year_9999) < mark_at(END.sent_ms) <= mark_at(1 << 60) < 1 << 63


def test_messages_of_one_millisecond_have_different_marks_as_a_rule() -> None:
    at_ms = 1_700_000_000_000
    marks = {mark_of(id_, Document(seq_no, at_ms, "a", "")) for id_ in ("c", "d") for seq_no in range(100, 200)}
    assert len(marks) > 195 and all(mark_at(at_ms) <= mark < mark_at(at_ms + 1) for mark in marks)


def test_messages_of_one_conversation_and_millisecond_never_share_a_mark() -> None:
    count = 50_000
    marks = marks_of("c", (Document(seq_no, 1_700_000_000_000, "a", "") for seq_no in range(count)))
    assert len(set(marks)) == count
