"""Texts that were deleted, replaced or have ended are looked for in rows, previews, segments and files."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.support.small_history import C, Story
from tidings.model import Row
from tidings_proof.judge.remains import in_files, in_rows, overdue

TEXT = "burns 0123456789abcde"
GONE = frozenset((TEXT, "what u0-d0-1 says"))


def test_a_file_that_holds_the_bytes_of_a_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "n0").mkdir()
    (tmp_path / "n0" / "tables.db-wal").write_bytes(b"\x00\xff" + TEXT.encode() + b"\x00what u0-d0-12 says")
    (tmp_path / "history.jsonl").write_text(TEXT)
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "heap").write_text(TEXT)
    assert list(in_files(tmp_path, GONE)) == [f"n0/tables.db-wal holds {TEXT!r}"]


def test_a_row_or_a_preview_that_holds_a_text_is_named() -> None:
    story = Story()
    story.said("u0", "a", TEXT)
    dump = story.dump()
    row = Row(user_id="u1", conversation_id=C, kind="group", last_message_preview=TEXT)
    assert len(list(in_rows(msgspec.structs.replace(dump, rows={"u1": [row]}), GONE))) == 2
    assert list(in_rows(dump, frozenset())) == []


def test_a_message_that_should_have_ended_is_named() -> None:
    story = Story()
    story.said("u0", "a-fleeting", TEXT)
    dump = story.dump()
    assert list(overdue(msgspec.structs.replace(dump, taken_ms=10_000))) == []
    assert len(list(overdue(msgspec.structs.replace(dump, taken_ms=60_000)))) == 1
