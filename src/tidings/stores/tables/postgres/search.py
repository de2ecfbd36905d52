"""The search index of PostgreSQL: one row a message, with its words as a tsvector under a GIN index.

The words are made by Tidings, so no text-search configuration of the server matters: a word and its place are written
as they are. An index that is lost or old is made anew by `tidings search rebuild`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidings.stores.tables.postgres.server.database import Port, columns
from tidings.stores.tables.search import MARK_BITS, Asked, Document, Part, Place, Term, mark_at, marks_of

_TABLE = "search"
_PLACES_MAX = 16_383  # the highest place of a word in a tsvector
_CURSORS = "SELECT conversation_id, up_to FROM @search_cursors WHERE conversation_id = ANY($1::text[])"
_MAKE = "INSERT INTO @search_cursors (conversation_id, up_to) VALUES ($1, 0) ON CONFLICT DO NOTHING"
_MOVE = "UPDATE @search_cursors SET up_to = $3 WHERE conversation_id = $1 AND up_to = $2"
_REMOVE = "DELETE FROM @search WHERE conversation_id = $1 AND seq_no = ANY($2::bigint[])"
_PUT = """
    INSERT INTO @search (conversation_id, seq_no, mark, sender_id, has_file, has_link, words)
    SELECT $1, d.seq_no, d.mark, d.sender_id, d.has_file, d.has_link, d.words::tsvector
    FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::bool[], $6::bool[], $7::text[])
      AS d (seq_no, mark, sender_id, has_file, has_link, words)
"""
_FIND = f"""
    SELECT mark >> {MARK_BITS} AS sent_ms, conversation_id, seq_no FROM @search
    WHERE conversation_id = ANY($1::text[]) AND words @@ $2::tsquery AND mark >= $3 AND mark < $4
      AND (mark >> {MARK_BITS}, conversation_id, seq_no) < ($5::bigint, $6::text, $7::bigint)
      AND ($8::text IS NULL OR sender_id = $8) AND (has_file OR NOT $9) AND (has_link OR NOT $10)
    ORDER BY sent_ms DESC, conversation_id DESC, seq_no DESC LIMIT $11
"""
_FORGET = "DELETE FROM @search WHERE conversation_id = $1"
_FORGET_CURSOR = "DELETE FROM @search_cursors WHERE conversation_id = $1"
_CLEAR = "DELETE FROM @search"
_CLEAR_CURSORS = "DELETE FROM @search_cursors"


class PostgresSearch(Port):
    async def cursors(self, conversation_ids: Iterable[str]) -> dict[str, int]:
        return {row[0]: row[1] for row in await self._database.rows(_TABLE, _CURSORS, list(conversation_ids))}

    async def put(self, parts: Sequence[Part]) -> set[str]:
        return {part.conversation_id for part in parts if not await self._put(part)}

    async def _put(self, part: Part) -> bool:
        id_ = part.conversation_id
        rows = [
            (one.seq_no, mark, one.sender_id, one.has_file, one.has_link, _vector(one))
            for one, mark in zip(part.documents, marks_of(id_, part.documents), strict=True)
            if one.words
        ]
        async with self._database.transaction() as tx:
            await tx.write(_TABLE, _MAKE, id_)
            if not await tx.write(_TABLE, _MOVE, id_, part.after, part.up_to):
                return False
            await tx.write(_TABLE, _REMOVE, id_, [document.seq_no for document in part.documents])
            await tx.write(_TABLE, _PUT, id_, *columns(rows, 6))
        return True

    async def find(self, asked: Asked) -> list[Place]:
        query = " & ".join(map(_phrase, asked.terms))
        found = await self._database.rows(
            _TABLE,
            _FIND,
            list(asked.conversation_ids),
            query,
            mark_at(asked.after_ms),
            mark_at(asked.below.sent_ms + 1),
            *asked.below,
            asked.sender_id,
            asked.has_file,
            asked.has_link,
            asked.limit,
        )
        return [Place(*row) for row in found]

    async def forget(self, conversation_id: str) -> None:
        async with self._database.transaction() as tx:
            await tx.write(_TABLE, _MAKE, conversation_id)  # it waits for a put, also for the first one
            await tx.write(_TABLE, _FORGET_CURSOR, conversation_id)
            await tx.write(_TABLE, _FORGET, conversation_id)

    async def clear(self) -> None:
        async with self._database.transaction() as tx:
            await tx.write(_TABLE, _CLEAR_CURSORS)  # first, as in `forget`
            await tx.write(_TABLE, _CLEAR)

    async def close(self) -> None:
        """The tables close the links."""


def _vector(document: Document) -> str:
    """The words as the text of a tsvector. A word has no quotation mark and no backslash in it."""
    numbered = enumerate(document.words.split()[:_PLACES_MAX], start=1)
    return " ".join(f"'{word}':{place}" for place, word in numbered)


def _phrase(term: Term) -> str:
    return "(" + " <-> ".join(f"'{word}'{':*' if term.is_prefix else ''}" for word in term.words) + ")"
