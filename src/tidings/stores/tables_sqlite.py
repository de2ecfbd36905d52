"""The tables in one SQLite file: the adapter of stores/ports.py for a single host.

One writer thread commits everything that waits together; reader threads answer from snapshots beside it. A write that
was answered is committed with synchronous=FULL. Several nodes may share the file. The work itself is in sqlite_log
(messages) and sqlite_rows (the rest), the threads are in sqlite_engine, the file and its schema in sqlite_file.
Built by wiring.py through `open_sqlite`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import apsw

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.model import ApiKey, Entry, Head, Member, Row, Status, User
from tidings.stores import sqlite_file, sqlite_log, sqlite_rows
from tidings.stores.ports import Group, Refused, Top, Touch
from tidings.stores.sqlite_engine import Hop, Threads, read_together, write_together


async def open_sqlite(
    path: Path, *, count_read: Callable[[str, int], None], count_write: Callable[[str, int], None], clock: Clock
) -> SqliteTables:
    """Opens the file, makes it if need be; raises Unavailable in one line when it cannot be used.

    `count_read(table, rows)` and `count_write(table, rows)` are called on the event loop.
    """
    epoch, writer, readers = await asyncio.to_thread(_open, path, clock)
    writes = Threads("tables-writer", [writer], write_together, count_read=count_read, count_write=count_write)
    reads = Threads("tables-reader", readers, read_together, count_read=count_read, count_write=count_write)
    return SqliteTables(epoch, reads=reads, writes=writes)


def _open(path: Path, clock: Clock) -> tuple[str, apsw.Connection, list[apsw.Connection]]:
    epoch = sqlite_file.prepare(path, clock)
    try:
        writer = sqlite_file.connect(path)
        return epoch, writer, [sqlite_file.connect(path, is_reader=True) for _ in range(bounds.SQLITE_READERS)]
    except apsw.Error as error:
        raise Unavailable(f"cannot open {path}: {error}") from error


class SqliteTables:
    """All five ports over one file. Each method is one errand of a thread; its promises are written in ports.py."""

    def __init__(self, epoch: str, *, reads: Threads, writes: Threads) -> None:
        self._epoch = epoch
        self.reads = reads  # sqlite_devices.py has its errands done by the same threads
        self.writes = writes
        self._read = reads.run
        self._write = writes.run
        self._threads = (writes, reads)

    # --- messages ---------------------------------------------------------------------------------
    async def append(self, groups: Sequence[Group]) -> list[Refused | None]:
        return await self._write(partial(sqlite_log.append, groups))

    async def catch_up(self, conversation_id: str, entries: Sequence[Entry]) -> None:
        """The head is raised in the commit of its entries."""

    async def page(
        self, conversation_id: str, *, after: int, before: int, limit: int, newest_first: bool
    ) -> list[Entry]:
        return await self._read(partial(sqlite_log.page, conversation_id, after, before, limit, newest_first))

    async def top(self, conversation_id: str) -> Top:
        return await self._read(partial(sqlite_log.top, conversation_id))

    async def unread(self, conversation_id: str, user_id: str, *, after: int, limit: int) -> list[tuple[int, int]]:
        return await self._read(partial(sqlite_log.unread, conversation_id, user_id, after, limit))

    async def seq_at(self, conversation_id: str, sent_ms: int) -> int:
        return await self._read(partial(sqlite_log.seq_at, conversation_id, sent_ms))

    # --- conversations ----------------------------------------------------------------------------
    async def create(self, head: Head, members: Sequence[Member], rows: Sequence[Row]) -> bool:
        return await self._write(partial(sqlite_rows.create, head, members, rows))

    async def heads(self, conversation_ids: Iterable[str]) -> dict[str, Head]:
        return await self._read(partial(sqlite_rows.heads, tuple(conversation_ids)))

    async def members(self, conversation_id: str) -> list[Member]:
        return await self._read(partial(sqlite_rows.members, conversation_id))

    async def rename(self, conversation_id: str, *, name: str | None, avatar_url: str | None) -> None:
        await self._write(partial(sqlite_rows.rename, conversation_id, name, avatar_url))

    async def delete(self, conversation_id: str) -> None:
        while not await self._write(partial(sqlite_rows.delete_some, conversation_id)):
            pass  # a long log goes in several commits, so that other writers get their turn between them

    # --- inboxes ----------------------------------------------------------------------------------
    async def rows(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Row]:
        return await self._read(partial(sqlite_rows.rows, user_id, tuple(conversation_ids)))

    async def scan(self, user_id: str, *, after_id: str, limit: int) -> list[Row]:
        return await self._read(partial(sqlite_rows.scan, user_id, after_id, limit))

    async def touch(self, touches: Sequence[Touch]) -> None:
        await self._write(partial(sqlite_rows.touch, touches))

    async def flag(
        self, user_id: str, conversation_id: str, *, muted: bool | None, pinned: bool | None, archived: bool | None
    ) -> Row:
        return await self._write(partial(sqlite_rows.flag, user_id, conversation_id, muted, pinned, archived))

    async def label(self, rows: Sequence[tuple[str, str]], *, name: str, avatar_url: str | None) -> None:
        await self._write(partial(sqlite_rows.label, rows, name, avatar_url))

    async def users(self, *, after_id: str, limit: int) -> list[str]:
        return await self._read(partial(sqlite_rows.users, after_id, limit))

    # --- statuses ---------------------------------------------------------------------------------
    async def get(self, user_id: str, conversation_ids: Iterable[str]) -> dict[str, Status]:
        return await self._read(partial(sqlite_rows.statuses, user_id, tuple(conversation_ids)))

    async def of_conversation(self, conversation_id: str) -> list[Status]:
        return await self._read(partial(sqlite_rows.statuses_of, conversation_id))

    async def put(self, status: Status) -> Status:
        return await self._write(partial(sqlite_rows.put_status, status))

    async def deliver(self, marks: Sequence[tuple[str, str, int]]) -> set[tuple[str, str]]:
        return await self._write(partial(sqlite_rows.deliver, marks))

    # --- accounts ---------------------------------------------------------------------------------
    async def user(self, user_id: str) -> User | None:
        return await self._read(partial(sqlite_rows.user, user_id))

    async def put_user(self, user: User) -> None:
        await self._write(partial(sqlite_rows.put_user, user))

    async def api_key(self, key_hash: str) -> ApiKey | None:
        return await self._read(partial(sqlite_rows.api_key, key_hash))

    async def put_api_key(self, key: ApiKey) -> None:
        await self._write(partial(sqlite_rows.put_api_key, key))

    async def api_keys(self) -> list[ApiKey]:
        return await self._read(sqlite_rows.api_keys)

    async def remove_api_key(self, key_hash: str) -> bool:
        return await self._write(partial(sqlite_rows.remove_api_key, key_hash))

    async def store_epoch(self) -> str:
        return self._epoch

    # --- the whole --------------------------------------------------------------------------------
    async def ping(self) -> None:
        """Both ways are tried: a snapshot can be read, and the write lock can be had."""
        await asyncio.gather(self._read(_look), self._write(_look))

    async def close(self) -> None:
        """Commits what waits, then ends the threads."""
        for threads in self._threads:
            await threads.close()


def _look(hop: Hop) -> None:
    hop.rows("meta", "SELECT value FROM meta WHERE key = 'store_epoch'", ())
