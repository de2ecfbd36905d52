"""Cursors: what we made is read back, and nothing else."""

from __future__ import annotations

import pytest

from tidings.cursors import cursor_of, place_at
from tidings.errors import BadCursor


def test_a_place_comes_back_as_it_was() -> None:
    for place in ("a", "ü 1", ""):
        assert place_at(str(cursor_of(place)), str) == place
    assert place_at(str(cursor_of(("like", "alice"))), tuple[str, str]) == ("like", "alice")
    assert cursor_of(None) is None


@pytest.mark.parametrize(
    "text", ["x", "abc", "ÿ", "=", str(cursor_of(7)), str(cursor_of("a")) + "A", "A" + str(cursor_of("a"))]
)
def test_a_text_that_we_did_not_make_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        place_at(text, str)
