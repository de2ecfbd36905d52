"""The archiver's side of the tables on SQLite.

A row moves only from the state that was seen, in the same commit in which the fence was read. Rows move in commits of
ARCHIVE_MOVES_MAX, so that sends get their turn between them. log.py and conversations.py write the rechecks that edits
and deletes leave, in their own commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidings import bounds
from tidings.errors import Conflict
from tidings.stores.tables.sqlite.file.bounds import DELETE_CHUNK
from tidings.stores.tables.sqlite.file.engine import Port, Threads, Transaction
from tidings.stores.tables.sqlite.file.sql import values_of
from tidings.stores.tables.stored_content import to_json
from tidings.stores.tables.values import Candidate, Move, Recheck
from tidings.stores.tables.whole import RECHECKS

_RECHECK = ", ".join(RECHECKS.columns)
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
# A move from the row needs content in the row: an edit may have wiped it meanwhile.
_MOVE = """
    UPDATE messages SET content = ?1, s3_ref = ?2, rev = rev + ?3
    WHERE conversation_id = ?4 AND seq_no = ?5 AND rev = ?6 AND s3_ref IS ?7 AND (?7 IS NOT NULL OR content IS NOT NULL)
"""
_CHUNK_END = "SELECT seq_no FROM messages WHERE conversation_id = ? AND seq_no <= ? ORDER BY seq_no LIMIT 1 OFFSET ?"
_CUT_LOG = "DELETE FROM messages WHERE conversation_id = ? AND seq_no <= ?"
_CUT_HEAD = """
    UPDATE conversation_heads SET floor_seq = max(floor_seq, ?1), preview = CASE WHEN last_seq > ?1 THEN preview END,
      last_message = CASE WHEN last_seq > ?1 THEN last_message END
    WHERE conversation_id = ?2
"""
_PUT = f"INSERT OR REPLACE INTO rechecks ({_RECHECK}) VALUES (?, ?, ?, ?, ?)"
_PUT_NEW = _PUT.replace("REPLACE", "IGNORE")
_LIST = f"""
    SELECT {_RECHECK} FROM rechecks WHERE (conversation_id, s3_ref) > (?, ?) ORDER BY conversation_id, s3_ref LIMIT ?
"""
_REMOVE = "DELETE FROM rechecks WHERE conversation_id = ? AND s3_ref = ? AND mark = ?"


class SqliteArchive(Port):
    def __init__(self, archive_id: str, reads: Threads, writes: Threads) -> None:
        super().__init__(reads, writes)
        self._archive_id = archive_id

    async def id(self) -> str:
        return self._archive_id

    async def take_fence(self) -> int:
        return await self._write(_take_fence)

    async def candidates(self, *, after_id: str, before_ms: int, limit: int) -> tuple[Sequence[Candidate], str | None]:
        rows = await self._read(lambda tx: tx.rows("conversation_heads", _WALK, (after_id, limit)))
        found = [Candidate(*row[:3]) for row in rows if row[1] < row[2] and row[3] <= before_ms]
        return found, rows[-1][0] if len(rows) == limit else None

    async def advance(self, conversation_id: str, *, archived_seq: int, next_ms: int) -> None:
        await self._write(lambda tx: tx.write("archives", _ADVANCE, (conversation_id, archived_seq, next_ms)))

    async def move(self, fence: int, conversation_id: str, moves: Sequence[Move]) -> set[int]:
        moved: set[int] = set()
        for start in range(0, len(moves), bounds.ARCHIVE_MOVES_MAX):
            some = moves[start : start + bounds.ARCHIVE_MOVES_MAX]
            moved |= await self._write(partial(_move, fence, conversation_id, some))
        return moved

    async def cut(self, conversation_id: str, *, up_to_seq: int) -> bool:
        return await self._write(partial(_cut, conversation_id, up_to_seq))

    async def finish_deletion(self, conversation_id: str) -> bool:
        """The last commit of a deletion removes all that is left together with the head: nothing can remain."""
        return True

    async def put_recheck(self, recheck: Recheck, *, only_new: bool = False) -> None:
        sql = _PUT_NEW if only_new else _PUT
        await self._write(lambda tx: tx.write("rechecks", sql, values_of(recheck)))

    async def rechecks(self, *, after: tuple[str, str], limit: int) -> Sequence[Recheck]:
        found = await self._read(lambda tx: tx.rows("rechecks", _LIST, (*after, limit)))
        return [RECHECKS.value_of(row) for row in found]

    async def remove_recheck(self, recheck: Recheck) -> bool:
        key = (recheck.conversation_id, recheck.s3_ref, recheck.mark)
        return await self._write(lambda tx: tx.write("rechecks", _REMOVE, key)) > 0


def _take_fence(tx: Transaction) -> int:
    tx.write("meta", _RAISE_FENCE, ())
    return _fence(tx)


def _fence(tx: Transaction) -> int:
    found = tx.rows("meta", _FENCE, ())
    return int(found[0][0]) if found else 0


def _move(fence: int, conversation_id: str, moves: Sequence[Move], tx: Transaction) -> set[int]:
    if _fence(tx) != fence:
        raise Conflict("another archiver has taken over")
    return {move.seq_no for move in moves if tx.write("messages", _MOVE, _bindings(conversation_id, move))}


def _bindings(conversation_id: str, move: Move) -> tuple[object, ...]:
    is_back = move.to_ref is None
    change = (to_json(move.content) if is_back else None, move.to_ref, int(is_back))
    return (*change, conversation_id, move.seq_no, move.rev, move.from_ref)


def _cut(conversation_id: str, up_to_seq: int, tx: Transaction) -> bool:
    tx.has_erased = True
    end = tx.rows("messages", _CHUNK_END, (conversation_id, up_to_seq, DELETE_CHUNK))
    last = end[0][0] if end else up_to_seq
    tx.write("conversation_heads", _CUT_HEAD, (last, conversation_id))
    tx.write("messages", _CUT_LOG, (conversation_id, last))
    return not end
