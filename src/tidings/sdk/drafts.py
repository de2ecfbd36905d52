"""A message on its way, and where those that are not acknowledged yet are kept.

A draft keeps its message_id for good, so sending it again is safe. `FileDrafts` survives the process: what was begun
before a crash is sent by the next client that opens the same file. One file belongs to one user's device.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec


class Draft(msgspec.Struct, frozen=True, gc=False):
    conversation_id: str
    message_id: str
    text: str
    ts: int | None = None


class Drafts(Protocol):
    """Keeps drafts in the order they were begun."""

    def load(self) -> Iterable[Draft]: ...
    def put(self, draft: Draft) -> None: ...
    def drop(self, draft: Draft) -> None: ...
    def close(self) -> None: ...


class MemoryDrafts:
    """Nothing outlives the process."""

    def load(self) -> Iterable[Draft]:
        return ()

    def put(self, draft: Draft) -> None:
        pass

    def drop(self, draft: Draft) -> None:
        pass

    def close(self) -> None:
        pass


class FileDrafts:
    """A SQLite file. `put` returns when the draft would survive a crash of the process."""

    def __init__(self, path: str | Path) -> None:
        try:
            self._db = sqlite3.connect(path, isolation_level=None)
        except sqlite3.OperationalError as error:
            raise OSError(f"drafts cannot be kept in {str(path)!r}: {error}") from None
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS drafts (position INTEGER PRIMARY KEY, conversation_id TEXT NOT NULL, "
            "message_id TEXT NOT NULL, text TEXT NOT NULL, ts INTEGER, UNIQUE (conversation_id, message_id))"
        )

    def load(self) -> list[Draft]:
        rows = self._db.execute("SELECT conversation_id, message_id, text, ts FROM drafts ORDER BY position")
        return [Draft(*row) for row in rows]

    def put(self, draft: Draft) -> None:
        self._db.execute(
            "INSERT INTO drafts (conversation_id, message_id, text, ts) VALUES (?, ?, ?, ?)",
            (draft.conversation_id, draft.message_id, draft.text, draft.ts),
        )

    def drop(self, draft: Draft) -> None:
        self._db.execute(
            "DELETE FROM drafts WHERE conversation_id = ? AND message_id = ?",
            (draft.conversation_id, draft.message_id),
        )

    def close(self) -> None:
        self._db.close()
