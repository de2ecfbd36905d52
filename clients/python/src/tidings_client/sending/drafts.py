"""Drafts: messages that the server has not stored yet, and where a client keeps them.

A draft keeps its message_id for good, so a client can send it again safely. `FileDrafts` survives the process: the next
client that opens the same file sends what an earlier one began. One file belongs to one device of one user.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tidings_client.forms import Mention


class Draft(msgspec.Struct, frozen=True, gc=False):
    conversation_id: str
    message_id: str
    text: str = ""
    ts: int | None = None
    data: dict[str, Any] | None = None
    silent: bool = False
    reply_to: int | None = None
    files: tuple[str, ...] = ()  # the ids of complete uploads
    paths: tuple[str, ...] = ()  # files that are not uploaded yet
    ttl_s: int | None = None
    mentions: tuple[str, ...] = ()
    mention: Mention | None = None
    thread_seq: int | None = None
    also_here: bool = False


class Drafts(Protocol):
    """A store of drafts in the order in which they were begun. A draft that is put again keeps its place."""

    def load(self) -> Iterable[Draft]: ...
    def put(self, draft: Draft) -> None: ...
    def drop(self, draft: Draft) -> None: ...
    def close(self) -> None: ...


class MemoryDrafts:
    """Keep nothing beyond the process."""

    def load(self) -> Iterable[Draft]:
        return ()

    def put(self, draft: Draft) -> None:
        pass

    def drop(self, draft: Draft) -> None:
        pass

    def close(self) -> None:
        pass


class FileDrafts:
    """Keep drafts in a SQLite file. `put` returns when the draft would survive a crash of the process."""

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
        if "whole" not in {name for _, name, *_ in self._db.execute("PRAGMA table_info(drafts)")}:
            self._db.execute("ALTER TABLE drafts ADD COLUMN whole BLOB")  # the draft as JSON; older files have none

    def load(self) -> list[Draft]:
        rows = self._db.execute("SELECT whole, conversation_id, message_id, text, ts FROM drafts ORDER BY position")
        return [msgspec.json.decode(whole, type=Draft) if whole else Draft(*row) for whole, *row in rows]

    def put(self, draft: Draft) -> None:
        self._db.execute(
            "INSERT INTO drafts (conversation_id, message_id, text, ts, whole) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (conversation_id, message_id) DO UPDATE SET whole = excluded.whole",
            (draft.conversation_id, draft.message_id, draft.text, draft.ts, msgspec.json.encode(draft)),
        )

    def drop(self, draft: Draft) -> None:
        self._db.execute(
            "DELETE FROM drafts WHERE conversation_id = ? AND message_id = ?",
            (draft.conversation_id, draft.message_id),
        )

    def close(self) -> None:
        self._db.close()
