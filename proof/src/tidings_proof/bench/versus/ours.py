"""Tidings as it comes: one node with its embedded Valkey and SQLite, with limits that refuse nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.clock import Clock
from tidings_proof.bench.load.plan import Reader, Readers
from tidings_proof.bench.target.own_node import own_node
from tidings_proof.bench.target.seeding import group, tables_in
from tidings_proof.bench.versus.rivals import OPENER, PAGE, TALK, WRITER, ReadingServer, Rival, Server, Sizes

# What the textbook server has in its inbox, and the badge; the conversation_id is always there.
INBOX_FIELDS = "name,last_message_preview,last_message_ts,last_seq,unread_count,total_unread"


class OurServer(ReadingServer):
    inbox_path = f"{ReadingServer.inbox_path}&fields={INBOX_FIELDS}"

    def history(self, transport: str) -> Readers | None:
        over_http = super().history("http")
        assert over_http is not None
        if transport == "http":
            return over_http
        readers = [Reader(one.token, [self._frame(path) for path in one.requests]) for one in over_http.readers]
        return Readers(readers, "ws", items=PAGE)

    def _frame(self, path: str) -> str:
        before = int(path.partition("before_seq=")[2].partition("&")[0])
        return json.dumps({"type": "history", "conversation_id": TALK, "before_seq": before, "limit": PAGE})


async def seed(data: Path, sizes: Sizes) -> None:
    now_ms = Clock().now_ms()
    async with tables_in(data) as tables:
        await group(tables, TALK, sizes.talkers, sizes.messages, now_ms)
        work = [
            group(tables, id_, [WRITER, OPENER], sizes.unread, now_ms + at) for at, id_ in enumerate(sizes.inbox_ids)
        ]
        await asyncio.gather(*work)


@contextmanager
def start(data: Path, sizes: Sizes) -> Iterator[Server]:
    asyncio.run(seed(data, sizes))
    with own_node(data) as target:
        yield OurServer(target, sizes)


OURS = Rival(
    "tidings",
    "Tidings",
    "stores each message (SQLite, synchronous=FULL) and counts it for every member; ok follows the commit",
    start,
)
