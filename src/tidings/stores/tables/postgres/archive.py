"""The archiver's side of the tables on PostgreSQL.

A row moves only from the state that was seen, in the transaction that locked the fence. log.py and conversations.py
write the rechecks that edits and deletes leave, in their own commits.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings import bounds
from tidings.errors import Conflict
from tidings.stores.tables.postgres.conversations import DELETE_CHUNK
from tidings.stores.tables.postgres.server.database import Database, names
from tidings.stores.tables.stored_content import to_json
from tidings.stores.tables.values import Candidate, Move, Recheck
from tidings.stores.tables.whole import RECHECKS

_RECHECK = RECHECKS.columns
_RAISE_FENCE = """
    INSERT INTO @meta AS m (key, value) VALUES ('archive_fence', '1')
    ON CONFLICT (key) DO UPDATE SET value = (m.value::bigint + 1)::text RETURNING value::bigint
"""
_FENCE = "SELECT value::bigint FROM @meta WHERE key = 'archive_fence' FOR SHARE"
# LATERAL with a LIMIT: a plain join would read the archives from their beginning for each page of the walk.
_WALK = """
    SELECT h.conversation_id, greatest(coalesce(a.archived_seq, 0), h.floor_seq), h.head, coalesce(a.next_ms, 0)
    FROM @conversation_heads AS h LEFT JOIN LATERAL (
      SELECT archived_seq, next_ms FROM @archives WHERE conversation_id = h.conversation_id LIMIT 1
    ) AS a ON true
    WHERE h.conversation_id > $1 ORDER BY h.conversation_id LIMIT $2
"""
_ADVANCE = """
    INSERT INTO @archives AS a (conversation_id, archived_seq, next_ms)
    SELECT $1::text, $2::bigint, $3::bigint FROM @conversation_heads WHERE conversation_id = $1
    ON CONFLICT (conversation_id) DO UPDATE SET
      archived_seq = greatest(a.archived_seq, excluded.archived_seq), next_ms = excluded.next_ms
"""
# A move from the row needs content in the row: an edit may have wiped it meanwhile.
_MOVE = """
    UPDATE @messages SET content = $1, s3_ref = $2, rev = rev + $3
    WHERE conversation_id = $4 AND seq_no = $5 AND rev = $6 AND s3_ref IS NOT DISTINCT FROM $7::text
      AND ($7::text IS NOT NULL OR content IS NOT NULL)
"""
_CHUNK_END = """
    SELECT seq_no FROM @messages WHERE conversation_id = $1 AND seq_no <= $2 ORDER BY seq_no LIMIT 1 OFFSET $3
"""
_CUT_LOG = "DELETE FROM @messages WHERE conversation_id = $1 AND seq_no <= $2"
_CUT_HEAD = """
    UPDATE @conversation_heads
    SET floor_seq = greatest(floor_seq, $1), preview = CASE WHEN last_seq > $1 THEN preview END,
    last_message = CASE WHEN last_seq > $1 THEN last_message END
    WHERE conversation_id = $2
"""
_PUT_NEW = f"INSERT INTO @rechecks ({names(_RECHECK)}) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING"
_PUT = _PUT_NEW.replace(
    "ON CONFLICT DO NOTHING",
    """ON CONFLICT (conversation_id, s3_ref)
    DO UPDATE SET why = excluded.why, mark = excluded.mark, since_ms = excluded.since_ms""",
)
_LIST = f"""
    SELECT {names(_RECHECK)} FROM @rechecks WHERE (conversation_id, s3_ref) > ($1, $2)
    ORDER BY conversation_id, s3_ref LIMIT $3
"""
_REMOVE = "DELETE FROM @rechecks WHERE conversation_id = $1 AND s3_ref = $2 AND mark = $3"


class PostgresArchive:
    def __init__(self, archive_id: str, database: Database) -> None:
        self._archive_id = archive_id
        self._database = database

    async def id(self) -> str:
        return self._archive_id

    async def take_fence(self) -> int:
        return int((await self._database.changed("meta", _RAISE_FENCE))[0][0])

    async def candidates(self, *, after_id: str, before_ms: int, limit: int) -> tuple[Sequence[Candidate], str | None]:
        rows = await self._database.rows("conversation_heads", _WALK, after_id, limit)
        found = [Candidate(row[0], row[1], row[2]) for row in rows if row[1] < row[2] and row[3] <= before_ms]
        return found, rows[-1][0] if len(rows) == limit else None

    async def advance(self, conversation_id: str, *, archived_seq: int, next_ms: int) -> None:
        await self._database.write("archives", _ADVANCE, conversation_id, archived_seq, next_ms)

    async def move(self, fence: int, conversation_id: str, moves: Sequence[Move]) -> set[int]:
        moved: set[int] = set()
        for start in range(0, len(moves), bounds.ARCHIVE_MOVES_MAX):
            some = moves[start : start + bounds.ARCHIVE_MOVES_MAX]
            moved |= await self._move(fence, conversation_id, some)
        return moved

    async def _move(self, fence: int, conversation_id: str, moves: Sequence[Move]) -> set[int]:
        async with self._database.transaction() as tx:
            found = await tx.rows("meta", _FENCE)
            if (found[0][0] if found else 0) != fence:
                raise Conflict("another archiver has taken over")
            return {
                move.seq_no
                for move in sorted(moves, key=lambda move: move.seq_no)
                if await tx.write("messages", _MOVE, *_bindings(conversation_id, move))
            }

    async def cut(self, conversation_id: str, *, up_to_seq: int) -> bool:
        async with self._database.transaction() as tx:
            end = await tx.rows("messages", _CHUNK_END, conversation_id, up_to_seq, DELETE_CHUNK)
            last = end[0][0] if end else up_to_seq
            await tx.write("conversation_heads", _CUT_HEAD, last, conversation_id)
            await tx.write("messages", _CUT_LOG, conversation_id, last)
            return not end

    async def finish_deletion(self, conversation_id: str) -> bool:
        """The last commit of a deletion removes all that is left together with the head: nothing can remain."""
        return True

    async def put_recheck(self, recheck: Recheck, *, only_new: bool = False) -> None:
        values = RECHECKS.row_of(recheck)
        await self._database.write("rechecks", _PUT_NEW if only_new else _PUT, *values)

    async def rechecks(self, *, after: tuple[str, str], limit: int) -> Sequence[Recheck]:
        rows = await self._database.rows("rechecks", _LIST, *after, limit)
        return [RECHECKS.value_of(row) for row in rows]

    async def remove_recheck(self, recheck: Recheck) -> bool:
        key = (recheck.conversation_id, recheck.s3_ref, recheck.mark)
        return await self._database.write("rechecks", _REMOVE, *key) > 0


def _bindings(conversation_id: str, move: Move) -> tuple[object, ...]:
    is_back = move.to_ref is None
    change = (to_json(move.content) if is_back else None, move.to_ref, int(is_back))
    return (*change, conversation_id, move.seq_no, move.rev, move.from_ref)
