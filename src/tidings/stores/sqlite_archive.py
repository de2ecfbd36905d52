"""The archiver's side of the tables on SQLite: the ports of ports_archive.py, on the threads of tables_sqlite.py.

Guards: a row moves only from what was seen, in the same commit in which the fence was looked at. Rows move in commits
of ARCHIVE_MOVES_MAX, so that sends get their turn between them. The rechecks that edits and deletes leave are written
by sqlite_log and sqlite_rows, in their own commits. Opened by opening.py with `open_archive`, after the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Conflict
from tidings.stores.ports_archive import Candidate, Move, Recheck
from tidings.stores.sqlite_engine import Hop, Threads
from tidings.stores.sqlite_log import content_of

_RECHECK = ", ".join(Recheck.__struct_fields__)
_MAKE_ID = "INSERT OR IGNORE INTO meta (key, value) VALUES ('archive_id', ?)"
_ID = "SELECT value FROM meta WHERE key = 'archive_id'"
_RAISE_FENCE = """
    INSERT INTO meta (key, value) VALUES ('archive_fence', '1')
    ON CONFLICT DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)
"""
_FENCE = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'archive_fence'"
_WALK = """
    SELECT h.conversation_id, max(coalesce(a.archived_seq, 0), h.floor_seq), h.head, coalesce(a.next_ms, 0)
    FROM conversation_heads AS h LEFT JOIN archives AS a ON a.conversation_id = h.conversation_id
    WHERE h.conversation_id > ? ORDER BY h.conversation_id LIMIT ?
"""
_ADVANCE = """
    INSERT INTO archives (conversation_id, archived_seq, next_ms)
    SELECT ?1, ?2, ?3 FROM conversation_heads WHERE conversation_id = ?1
    ON CONFLICT DO UPDATE SET archived_seq = max(archived_seq, excluded.archived_seq), next_ms = excluded.next_ms
"""
# From the row it must have content still: what an edit wiped meanwhile has nothing to move.
_MOVE = """
    UPDATE messages SET content = ?1, s3_ref = ?2, rev = rev + ?3
    WHERE conversation_id = ?4 AND seq_no = ?5 AND rev = ?6 AND s3_ref IS ?7 AND (?7 IS NOT NULL OR content IS NOT NULL)
"""
_PUT = f"INSERT OR REPLACE INTO rechecks ({_RECHECK}) VALUES (?, ?, ?, ?, ?)"
_PUT_NEW = _PUT.replace("REPLACE", "IGNORE")
_LIST = f"""
    SELECT {_RECHECK} FROM rechecks WHERE (conversation_id, s3_ref) > (?, ?) ORDER BY conversation_id, s3_ref LIMIT ?
"""
_REMOVE = "DELETE FROM rechecks WHERE conversation_id = ? AND s3_ref = ? AND mark = ?"


async def open_archive(reads: Threads, writes: Threads, clock: Clock) -> SqliteArchive:
    """On the threads of the tables."""
    archive_id = await writes.run(partial(_prepare, clock.random_id(6)))
    return SqliteArchive(archive_id, reads, writes)


class SqliteArchive:
    """The ports Archives and Rechecks. Each method is one errand, or several; its promises are in ports_archive.py."""

    def __init__(self, archive_id: str, reads: Threads, writes: Threads) -> None:
        self._archive_id = archive_id
        self._read = reads.run
        self._write = writes.run

    async def archive_id(self) -> str:
        return self._archive_id

    async def take_fence(self) -> int:
        return await self._write(_take_fence)

    async def candidates(self, *, after_id: str, before_ms: int, limit: int) -> tuple[Sequence[Candidate], str | None]:
        rows = await self._read(partial(_walk, after_id, limit))
        found = [Candidate(*row[:3]) for row in rows if row[1] < row[2] and row[3] <= before_ms]
        return found, rows[-1][0] if len(rows) == limit else None

    async def advance(self, conversation_id: str, *, archived_seq: int, next_ms: int) -> None:
        await self._write(partial(_advance, (conversation_id, archived_seq, next_ms)))

    async def move(self, fence: int, conversation_id: str, moves: Sequence[Move]) -> set[int]:
        moved: set[int] = set()
        for start in range(0, len(moves), bounds.ARCHIVE_MOVES_MAX):
            some = moves[start : start + bounds.ARCHIVE_MOVES_MAX]
            moved |= await self._write(partial(_move, fence, conversation_id, some))
        return moved

    async def finish_deletion(self, conversation_id: str) -> bool:
        """The last commit of a deletion takes all that is left, the head with it: without one there is nothing."""
        return True

    async def put_recheck(self, recheck: Recheck, *, only_new: bool = False) -> None:
        await self._write(partial(_put_recheck, recheck, only_new))

    async def rechecks(self, *, after: tuple[str, str], limit: int) -> Sequence[Recheck]:
        return await self._read(partial(_rechecks, after, limit))

    async def remove_recheck(self, recheck: Recheck) -> bool:
        return await self._write(partial(_remove_recheck, recheck))


def _prepare(archive_id: str, hop: Hop) -> str:
    hop.write("meta", _MAKE_ID, (archive_id,))
    return str(hop.rows("meta", _ID, ())[0][0])


def _take_fence(hop: Hop) -> int:
    hop.write("meta", _RAISE_FENCE, ())
    return _fence(hop)


def _fence(hop: Hop) -> int:
    found = hop.rows("meta", _FENCE, ())
    return int(found[0][0]) if found else 0


def _walk(after_id: str, limit: int, hop: Hop) -> list[tuple[str, int, int, int]]:
    return hop.rows("conversation_heads", _WALK, (after_id, limit))


def _advance(values: tuple[str, int, int], hop: Hop) -> None:
    hop.write("archives", _ADVANCE, values)


def _move(fence: int, conversation_id: str, moves: Sequence[Move], hop: Hop) -> set[int]:
    if _fence(hop) != fence:
        raise Conflict("another archiver has taken over")
    return {move.seq_no for move in moves if hop.write("messages", _MOVE, _bindings(conversation_id, move))}


def _bindings(conversation_id: str, move: Move) -> tuple[object, ...]:
    is_back = move.to_ref is None
    change = (content_of(move.text, None) if is_back else None, move.to_ref, int(is_back))
    return (*change, conversation_id, move.seq_no, move.rev, move.from_ref)


def _put_recheck(recheck: Recheck, only_new: bool, hop: Hop) -> None:
    hop.write("rechecks", _PUT_NEW if only_new else _PUT, msgspec.structs.astuple(recheck))


def _rechecks(after: tuple[str, str], limit: int, hop: Hop) -> list[Recheck]:
    rows = hop.rows("rechecks", _LIST, (*after, limit))
    return [Recheck(**dict(zip(Recheck.__struct_fields__, row, strict=True))) for row in rows]


def _remove_recheck(recheck: Recheck, hop: Hop) -> bool:
    return hop.write("rechecks", _REMOVE, (recheck.conversation_id, recheck.s3_ref, recheck.mark)) > 0
