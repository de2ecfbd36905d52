"""Copying: moves an installation from one adapter of the tables to another, and proves that both sides are equal.

Rows are put as they are, so a copy may be interrupted and begun again: it goes on where it was. A record in the target
says whose copy is under way and how far it came; it goes with the end of the copy. A target that holds anything else
is refused. At the end both sides are read whole and compared: the rows and a checksum of each table, and of each
conversation. The identity of the tables moves too, so clients and links to the cold tier go on as before.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from tidings.errors import Unavailable
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.records import DEPLOYMENT, Put
from tidings.stores.tables.whole import PARTS, Value

COPY_ROWS = 1_000  # rows read and written together: a commit of some milliseconds
COPY_SAVE_ROWS = 10_000  # rows after which a copy notes its place: so many are written again after an interruption
COPY_DIFFERENT_SHOWN = 20  # conversations that differ and are named: enough to look at one
COLLECTION, NAME = "tables.copy", "progress"
Tell = Callable[[str, int], object]  # (table, rows so far)
_ROW = 1 << 128  # a sum holds the number of rows above this bit, and the sum of their digests below it


class Progress(msgspec.Struct, frozen=True):
    """The state of a copy, in the target: whose rows they are, and after which place it goes on."""

    source: str
    table: str = next(iter(PARTS))
    after: str = ""


class TableSum(msgspec.Struct, frozen=True):
    """One table on both sides."""

    table: str
    rows: int
    checksum: str
    target_rows: int
    target_checksum: str

    @property
    def is_equal(self) -> bool:
        return (self.rows, self.checksum) == (self.target_rows, self.target_checksum)


class Copied(msgspec.Struct, frozen=True):
    """The result: both sides by table, how many conversations were compared, and those that differ."""

    is_equal: bool
    is_resumed: bool
    conversations: int
    messages: int
    different: list[str]  # conversations, the first few
    tables: list[TableSum]


async def copy_tables(source: Tables, target: Tables, tell: Tell = lambda table, rows: None) -> Copied:
    """Copy everything, then compare. Raises Unavailable when the target is not empty, and any StoreError."""
    progress = await _begin(source, target)
    is_resumed = progress.after != "" or progress.table != next(iter(PARTS))
    names = list(PARTS)
    for table in names[names.index(progress.table) :]:
        await _copy_table(source, target, table, progress, tell)
    copied = await compare_tables(source, target, tell, is_resumed=is_resumed)
    if copied.is_equal:
        await target.records.put([Put(DEPLOYMENT, COLLECTION, NAME, None)])
    return copied


async def compare_tables(source: Tables, target: Tables, tell: Tell, *, is_resumed: bool = False) -> Copied:
    """Read both sides whole, and compare each table and each conversation."""
    by_conversation: dict[str, int] = {}
    sums = [await _compare_table(source, target, table, by_conversation, tell) for table in PARTS]
    different = sorted(by_conversation)[:COPY_DIFFERENT_SHOWN]
    rows = {one.table: one.rows for one in sums}
    return Copied(
        is_equal=not different and all(one.is_equal for one in sums),
        is_resumed=is_resumed,
        conversations=rows["conversation_heads"],
        messages=rows["messages"],
        different=different,
        tables=sums,
    )


async def _begin(source: Tables, target: Tables) -> Progress:
    """Find where the copy goes on. The first one marks the target as its own."""
    name = await source.archive.id()
    found = (await target.records.get(DEPLOYMENT, COLLECTION, [NAME])).get(NAME)
    if found is not None:
        progress = msgspec.json.decode(found.value, type=Progress)
        if progress.source != name:
            raise Unavailable("the target holds an unfinished copy of other tables; take another target")
        return progress
    for table in PARTS:
        values, after = await target.whole.walk(table, after="", limit=1)
        while after and not values:  # a page may be empty, and have others after it
            values, after = await target.whole.walk(table, after=after, limit=1)
        if values and table != "meta":
            raise Unavailable(f"the target is not empty: it has rows in {table}; take another target")
    progress = Progress(name)
    await _save(target, progress)
    return progress


async def _save(target: Tables, progress: Progress) -> None:
    await target.records.put([Put(DEPLOYMENT, COLLECTION, NAME, msgspec.json.encode(progress))])


async def _copy_table(source: Tables, target: Tables, table: str, progress: Progress, tell: Tell) -> None:
    after = progress.after if progress.table == table else ""
    rows, unsaved = 0, 0
    reading = asyncio.ensure_future(source.whole.walk(table, after=after, limit=COPY_ROWS))
    while True:
        values, after = await reading
        if after:  # the next rows are read while these are written
            reading = asyncio.ensure_future(source.whole.walk(table, after=after, limit=COPY_ROWS))
        values = [value for value in values if not _is_progress(value)]
        try:
            if values:
                await target.whole.put(table, values)
        except BaseException:
            reading.cancel()
            raise
        rows, unsaved = rows + len(values), unsaved + len(values)
        tell(table, rows)
        if not after:
            break
        if unsaved >= COPY_SAVE_ROWS:
            await _save(target, Progress(progress.source, table, after))
            unsaved = 0
    names = [*PARTS, table]
    following = names[names.index(table) + 1]
    await _save(target, Progress(progress.source, following))


def _is_progress(value: Value) -> bool:
    return getattr(value, "collection", None) == COLLECTION


# --- comparing ------------------------------------------------------------------------------------


async def _compare_table(
    source: Tables, target: Tables, table: str, by_conversation: dict[str, int], tell: Tell
) -> TableSum:
    """Walk both sides in step. A conversation whose sums are equal is dropped from the dict at once."""
    sums = [0, 0]
    walks = [_batches(side, table) for side in (source, target)]
    batches: list[Any] = [[], []]
    while any(batch is not None for batch in batches):
        batches = await asyncio.gather(*(anext(walk, None) for walk in walks))
        for side, (sign, batch) in enumerate(zip((1, -1), batches, strict=True)):
            for value in batch or ():
                digest = _digest(value)
                sums[side] += digest
                conversation_id = getattr(value, "conversation_id", None)
                if conversation_id is not None:
                    left = by_conversation.pop(conversation_id, 0) + sign * digest
                    if left:
                        by_conversation[conversation_id] = left
        tell(f"{table} compared", sums[0] // _ROW)
    return TableSum(table, *_shown(sums[0]), *_shown(sums[1]))


async def _batches(side: Tables, table: str) -> AsyncIterator[list[Value]]:
    """The rows in their order. The next ones are read while these are compared."""
    reading = asyncio.ensure_future(side.whole.walk(table, after="", limit=COPY_ROWS))
    try:
        while True:
            values, after = await reading
            if after:
                reading = asyncio.ensure_future(side.whole.walk(table, after=after, limit=COPY_ROWS))
            yield [value for value in values if not _is_progress(value)]
            if not after:
                return
    finally:
        reading.cancel()


def _digest(value: Value) -> int:
    """One row, and the digest of all its fields. Sums of these do not depend on the order of the rows."""
    raw = hashlib.blake2b(_encode(value), digest_size=12).digest()
    return _ROW + int.from_bytes(raw, "big")


_encode = msgspec.msgpack.Encoder().encode


def _shown(total: int) -> tuple[int, str]:
    return total // _ROW, f"{total % (1 << 96):024x}"
