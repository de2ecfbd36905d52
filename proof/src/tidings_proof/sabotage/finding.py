"""Mistakes in threads, files and search: passed over, left open, asleep. See plants.py."""

from __future__ import annotations

from typing import Any

from tidings.errors import NotFound
from tidings.messaging.files.downloads import Downloads
from tidings.messaging.files.record import FileRecord
from tidings.messaging.search.indexer import Indexer
from tidings.messaging.threads.indexing import ThreadIndex
from tidings_proof.sabotage.seams import replace


def half_the_followers() -> None:
    plain = ThreadIndex._indexed
    replace(ThreadIndex, "_indexed", lambda self, *words: plain(self, *words)[::2])


def open_files() -> None:
    """A link to a file asks for no membership."""

    async def readable(self: Any, user_id: str, conversation_id: str, file_id: str) -> FileRecord:
        value: FileRecord | None = await self._value(conversation_id, file_id)
        if value is None:
            raise NotFound("no such file")
        return value

    replace(Downloads, "readable", readable)


def index_sleeps() -> None:
    async def index_from(self: Any, conversation_id: str, at: int) -> int:
        return 0

    replace(Indexer, "_index_from", index_from)
