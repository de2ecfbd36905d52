from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tidings_client.sending.drafts import Draft, FileDrafts, MemoryDrafts


def test_a_file_keeps_drafts_in_their_order_until_they_are_done(tmp_path: Path) -> None:
    file = tmp_path / "drafts.db"
    drafts = FileDrafts(file)
    first, second = (Draft("c1", f"m{n}", f"text {n}", n) for n in range(2))
    third = Draft("c1", "m2", "", 2, {"card": [1, None]}, silent=True, reply_to=7)
    for draft in (first, second, third):
        drafts.put(draft)
    drafts.drop(second)
    drafts.close()
    again = FileDrafts(file)
    assert list(again.load()) == [first, third]
    again.put(second)
    assert list(again.load()) == [first, third, second]
    again.close()


def test_a_file_of_an_older_client_is_read(tmp_path: Path) -> None:
    file = tmp_path / "drafts.db"
    with closing(sqlite3.connect(file)) as old:
        old.execute(
            "CREATE TABLE drafts (position INTEGER PRIMARY KEY, conversation_id TEXT NOT NULL, "
            "message_id TEXT NOT NULL, text TEXT NOT NULL, ts INTEGER, UNIQUE (conversation_id, message_id))"
        )
        old.execute("INSERT INTO drafts (conversation_id, message_id, text, ts) VALUES ('c1', 'm1', 'hi', 5)")
        old.commit()
    drafts = FileDrafts(file)
    assert list(drafts.load()) == [Draft("c1", "m1", "hi", 5)]
    drafts.close()


def test_the_memory_keeps_nothing_for_the_next_process() -> None:
    drafts = MemoryDrafts()
    drafts.put(Draft("c1", "m1", "text"))
    drafts.drop(Draft("c1", "m1", "text"))
    assert list(drafts.load()) == []
    drafts.close()


def test_a_file_that_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"nowhere/drafts\.db"):
        FileDrafts(tmp_path / "nowhere" / "drafts.db")
