"""The tables in one SQLite file: the adapter for a single host.

One writer thread commits everything that waits together; reader threads answer from snapshots beside it. A write that
was answered is committed with synchronous=FULL. Several nodes may share the file. Each port is a module of this
folder; the threads, and the file with its schema, are in file/.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.findings import Finding
from tidings.stores.tables.open import Adapter
from tidings.stores.tables.ports import NO_COUNTS, Counts, Tables
from tidings.stores.tables.sqlite.accounts import SqliteAccounts
from tidings.stores.tables.sqlite.archive import SqliteArchive
from tidings.stores.tables.sqlite.conversations import SqliteConversations
from tidings.stores.tables.sqlite.devices import SqliteDevices
from tidings.stores.tables.sqlite.file import backup, bounds, examination, file
from tidings.stores.tables.sqlite.file.checkpoint import Checkpoints, Gate
from tidings.stores.tables.sqlite.file.engine import Tasks, Threads, Transaction, Upkeep, read_together, write_together
from tidings.stores.tables.sqlite.file.schema import Identity
from tidings.stores.tables.sqlite.file.turns import Turns
from tidings.stores.tables.sqlite.file.wipe import wipe
from tidings.stores.tables.sqlite.inboxes import SqliteInboxes
from tidings.stores.tables.sqlite.log import SqliteLog
from tidings.stores.tables.sqlite.overrides import SqliteOverrides
from tidings.stores.tables.sqlite.pending import SqlitePending
from tidings.stores.tables.sqlite.people import SqlitePeople
from tidings.stores.tables.sqlite.records import SqliteRecords
from tidings.stores.tables.sqlite.search.index import SqliteSearch, index_path, open_index
from tidings.stores.tables.sqlite.statuses import SqliteStatuses
from tidings.stores.tables.sqlite.whole import SqliteWhole


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite://"))


def name(url: str) -> str:
    return str(path_of(url))


def folder(url: str) -> Path | None:
    return path_of(url).parent


def exists(url: str) -> bool:
    return path_of(url).exists()


async def open(url: str, counts: Counts, clock: Clock) -> Tables:
    """Open the file, and make it with its folder if need be."""
    path = path_of(url)
    identity, writer, readers = await asyncio.to_thread(_open, path, clock)
    gate = Gate(path, clock)

    def read(tx: Transaction, tasks: Tasks) -> None:
        gate.wait()
        read_together(tx, tasks)

    turns = Turns(path, clock)
    upkeep = _upkeep(Checkpoints(path, gate, clock), turns)
    writes = Threads("tables-writer", [writer], write_together, counts, upkeep, turns.begin)
    reads = Threads("tables-reader", readers, read, counts)
    search = await open_index(path, identity.store_epoch)

    async def wipe_all() -> bool:
        await search.rewrite()
        return await wipe(index_path(path), clock) and await wipe(path, clock)

    return replace(tables_on(identity, reads, writes, clock, search), quiet=writes.quiet, wipe=wipe_all)


def _open(path: Path, clock: Clock) -> tuple[Identity, apsw.Connection, list[apsw.Connection]]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity = file.prepare(path, clock)
    try:
        writer = file.connect(path, busy_s=bounds.TURN_S)
        return identity, writer, [file.connect(path, is_reader=True) for _ in range(bounds.READERS)]
    except apsw.Error as error:
        raise Unavailable(f"cannot open {path}: {error}") from error


def _upkeep(checkpoints: Checkpoints, turns: Turns) -> Upkeep:
    def upkeep(tx: Transaction, is_last: bool) -> float | None:
        if tx.has_erased:
            tx.has_erased = False
            checkpoints.erased()
        if is_last:
            checkpoints.finish(tx.connection)
            return None
        turns.give_way()
        return checkpoints.run(tx.connection)

    return upkeep


def tables_on(
    identity: Identity, reads: Threads, writes: Threads, clock: Clock, search: SqliteSearch | None = None
) -> Tables:
    async def ping() -> None:
        """Try both ways: a snapshot can be read, and the write lock can be had."""
        await asyncio.gather(reads.run(_read_epoch), writes.run(_read_epoch))

    async def close() -> None:
        """Commit what waits, then end the threads."""
        await writes.close()
        await reads.close()
        if search is not None:
            await search.close()

    return Tables(
        log=SqliteLog(reads, writes),
        conversations=SqliteConversations(reads, writes),
        inboxes=SqliteInboxes(reads, writes),
        statuses=SqliteStatuses(reads, writes),
        accounts=SqliteAccounts(identity, reads, writes),
        devices=SqliteDevices(reads, writes),
        pending=SqlitePending(reads, writes),
        overrides=SqliteOverrides(clock, reads, writes),
        people=SqlitePeople(reads, writes),
        records=SqliteRecords(reads, writes),
        archive=SqliteArchive(identity.archive_id, reads, writes),
        whole=SqliteWhole(reads, writes),
        search=search,
        commit_max=bounds.COMMIT_MAX,
        ping=ping,
        close=close,
    )


def _read_epoch(tx: Transaction) -> None:
    tx.rows("meta", "SELECT value FROM meta WHERE key = 'store_epoch'", ())


async def create(url: str, clock: Clock) -> list[str]:
    is_new = not exists(url)
    await (await open(url, NO_COUNTS, clock)).close()
    return [name(url)] if is_new else []


async def check(url: str, clock: Clock) -> list[str]:
    """Opening brings the file up to date, so a file that can be opened has no differences."""
    if not exists(url):
        return [f"{name(url)}: missing"]
    await (await open(url, NO_COUNTS, clock)).close()
    return []


async def renew_epoch(url: str, clock: Clock) -> str:
    return await asyncio.to_thread(backup.renew_epoch, path_of(url), clock)


def back_up(url: str, to: Path) -> int:
    return backup.back_up(path_of(url), to)


async def examine(url: str, clock: Clock) -> list[Finding]:
    return await asyncio.to_thread(lambda: list(examination.check_file(path_of(url), clock)))


if TYPE_CHECKING:
    from tidings.stores.tables.sqlite import adapter

    _CHECKED: Adapter = adapter
