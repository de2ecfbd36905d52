from __future__ import annotations

from pathlib import Path

import pytest

from tidings.sdk.drafts import Draft, FileDrafts, MemoryDrafts


def test_a_file_keeps_drafts_in_their_order_until_they_are_done(tmp_path: Path) -> None:
    file = tmp_path / "drafts.db"
    drafts = FileDrafts(file)
    first, second, third = (Draft("c1", f"m{n}", f"text {n}", n) for n in range(3))
    for draft in (first, second, third):
        drafts.put(draft)
    drafts.drop(second)
    drafts.close()
    again = FileDrafts(file)
    assert list(again.load()) == [first, third]
    again.put(second)
    assert list(again.load()) == [first, third, second]
    again.close()


def test_the_memory_keeps_nothing_for_the_next_process() -> None:
    drafts = MemoryDrafts()
    drafts.put(Draft("c1", "m1", "text"))
    drafts.drop(Draft("c1", "m1", "text"))
    assert list(drafts.load()) == []
    drafts.close()


def test_a_file_that_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"nowhere/drafts\.db"):
        FileDrafts(tmp_path / "nowhere" / "drafts.db")
