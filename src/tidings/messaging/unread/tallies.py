"""Tally: the index of one large conversation, built from its log.

A build begins with its announcement in the keyspace. From there on posts and deletes go into the tally, so what the log
has by then is read, and what comes later comes by itself. Several nodes may build at the same time: each adds the same
words, and the first that has read everything makes the tally warm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidings.clock import Clock
from tidings.errors import NotFound, Unavailable
from tidings.messaging.log import NEWEST
from tidings.messaging.unread.bounds import TALLY_CHUNK, TALLY_TRIES_MAX
from tidings.stores.keyspace.call import Keyspace
from tidings.stores.keyspace.scripts.tally import TallyScripts
from tidings.stores.tables.ports import Tables
from tidings.tasks import SingleFlight


@dataclass(eq=False, repr=False)
class Tallies:
    """Builds tallies that are cold."""

    keyspace: Keyspace
    scripts: TallyScripts
    tables: Tables
    clock: Clock
    count_rebuild: Callable[[str], None]

    def __post_init__(self) -> None:
        self._builds = SingleFlight[bool, str, int](self._build)

    async def build(self, conversation_id: str, line_ms: int) -> bool:
        """Make a tally warm. False: the conversation has crossed the line again since then. Raises NotFound."""
        return await self._builds(conversation_id, line_ms)

    async def close(self) -> None:
        await self._builds.close()

    async def _build(self, conversation_id: str, line_ms: int) -> bool:
        for _ in range(TALLY_TRIES_MAX):
            token = self.clock.random_id(8)
            begun = await self.keyspace.one(self.scripts.tally_begin(conversation_id, line_ms, token))
            if begun.build is None:
                return False
            if begun.is_warm or await self._fill(conversation_id, line_ms, begun.build):
                return True
        raise Unavailable("the index of the conversation is lost again and again")

    async def _fill(self, conversation_id: str, line_ms: int, build: str) -> bool:
        """Read the log from its end, as far down as the tally reaches. False: the build was lost."""
        heads = await self.tables.conversations.heads([conversation_id])
        head = heads.get(conversation_id)
        if head is None:
            raise NotFound("no such conversation")
        before, kept, is_end = NEWEST, 0, False
        while not is_end:
            page = await self.tables.log.page(
                conversation_id, after=head.floor_seq, before=before, limit=TALLY_CHUNK, newest_first=True
            )
            kept += sum(entry.counts for entry in page)
            before = page[-1].seq_no if page else 0
            is_cut = kept >= self.scripts.keep
            is_end = is_cut or len(page) < TALLY_CHUNK
            fill = self.scripts.tally_fill(
                conversation_id,
                line_ms,
                build,
                page,
                floor=before - 1 if is_cut else 0,
                last_ms=head.last_ms,
                is_end=is_end,
            )
            if not await self.keyspace.one(fill):
                return False
        self.count_rebuild("tally")
        return True
