"""Pages of the log on PostgreSQL: pages that are asked for together are read by one statement.

A statement costs more than the 20 rows of a page: a round trip, a wake-up of the server and one of the node. So a page
that is asked for while others are being read waits for the next statement, with all that come meanwhile. A page is
never read by a statement that began before it was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from tidings.model import Entry
from tidings.stores.tables.log_rows import COLUMNS, entry_of
from tidings.stores.tables.postgres.server.bounds import PAGE_STATEMENTS, PAGES_TOGETHER
from tidings.stores.tables.postgres.server.database import Database, columns, names

_NAMES = names(COLUMNS)
_ONE = f"""
    SELECT 0, {_NAMES} FROM @messages WHERE conversation_id = $1 AND seq_no > $2 AND seq_no < $3
    ORDER BY seq_no DESC LIMIT $4
"""
_MANY = f"""
    SELECT asked.at, m.* FROM unnest($1::int[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
      AS asked (at, conversation_id, low, high, most)
    CROSS JOIN LATERAL (
      SELECT {_NAMES} FROM @messages
      WHERE conversation_id = asked.conversation_id AND seq_no > asked.low AND seq_no < asked.high
      ORDER BY seq_no DESC LIMIT asked.most
    ) AS m
"""
_SQL = {
    (is_one, newest_first): sql if newest_first else sql.replace("DESC", "ASC")
    for is_one, sql in ((True, _ONE), (False, _MANY))
    for newest_first in (True, False)
}


class Asked(NamedTuple):
    conversation_id: str
    after: int
    before: int
    limit: int


class Pages:
    """Pages of one direction."""

    def __init__(self, database: Database, *, newest_first: bool) -> None:
        self._database = database
        self._newest_first = newest_first
        self._waiting: list[tuple[Asked, asyncio.Future[list[Entry]]]] = []
        self._readers: set[asyncio.Task[None]] = set()

    async def page(self, asked: Asked) -> list[Entry]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Entry]] = loop.create_future()
        self._waiting.append((asked, future))
        if len(self._readers) < PAGE_STATEMENTS:
            self._readers.add(loop.create_task(self._read(), name="pages"))
        return await future

    async def _read(self) -> None:
        """Read until nobody waits. After that the next caller starts a reader.

        A done callback of the task would be too late for it: callers who got their pages run before, and may ask again.
        """
        try:
            await self._read_waiting()
        finally:
            self._readers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _read_waiting(self) -> None:
        """Read in batches. An error is that of everybody whose page was read with it."""
        while self._waiting:
            batch, self._waiting = self._waiting[:PAGES_TOGETHER], self._waiting[PAGES_TOGETHER:]
            batch = [one for one in batch if not one[1].done()]  # others have gone
            if not batch:
                continue
            try:
                pages = await self.pages([asked for asked, _ in batch])
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), entries in zip(batch, pages, strict=True):
                if not future.done():
                    future.set_result(entries)

    async def pages(self, asked: Sequence[Asked]) -> list[list[Entry]]:
        """Read these pages by one statement."""
        sql = _SQL[len(asked) == 1, self._newest_first]
        if len(asked) == 1:
            bindings: Sequence[Any] = asked[0]
        else:
            bindings = columns([(at, *one) for at, one in enumerate(asked)], 5)
        pages: list[list[Entry]] = [[] for _ in asked]
        for row in await self._database.rows("messages", sql, *bindings):
            pages[row[0]].append(entry_of(row[1:]))
        return pages
