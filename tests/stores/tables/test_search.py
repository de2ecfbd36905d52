from __future__ import annotations

from tidings.stores.tables.search import Document, mark_at, mark_of


def test_marks_are_ordered_by_time_and_fit_into_a_row_number() -> None:
    early, late = Document(9, 1_700_000_000_000, "a", ()), Document(1, 1_700_000_000_001, "a", ())
    assert (
        mark_at(1_700_000_000_000) <= mark_of("c", early) < mark_at(1_700_000_000_001) <= mark_of("c", late) < 1 << 63
    )
    assert mark_of("c", early) != mark_of("d", early)
    assert mark_at(-5) == 0
