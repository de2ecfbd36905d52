"""Data that a benchmark finds there: written through the tables port into the file of a node that does not run yet.

The node then rebuilds its keyspace from these tables when a user is first looked at, as after a lost keyspace.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate
from pathlib import Path

from tidings.bounds import GROUP_ENTRIES_MAX
from tidings.clock import Clock, Dice
from tidings.model import Content, Entry, Head, Member, Row, digest_of
from tidings.stores.tables.open import adapter_of
from tidings.stores.tables.ports import NO_COUNTS, Tables
from tidings.stores.tables.schemes import DEFAULT, url_of
from tidings.stores.tables.values import Group

AT_ONCE = 1_000  # conversations created in one commit, more or less
TEXT = "x" * 64


class Words:
    """Texts of about 60 characters, the same with every run."""

    def __init__(self) -> None:
        self._random = Dice(7)
        syllables = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "en", "or", "ist")]
        self._words = ["".join(self._random.choices(syllables, k=self._random.randint(1, 4))) for _ in range(3_000)]
        self._weights = list(accumulate(1 / rank for rank in range(1, 3_001)))

    def text(self) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=self._random.randint(4, 16)))


@asynccontextmanager
async def tables_in(data: Path, url: str = DEFAULT) -> AsyncIterator[Tables]:
    url = url_of(url, data)
    tables = await adapter_of(url).open(url, NO_COUNTS, Clock())
    try:
        yield tables
    finally:
        await tables.close()


async def group(
    tables: Tables,
    conversation_id: str,
    user_ids: Sequence[str],
    messages: int,
    last_ms: int,
    text: Callable[[], str] = lambda: TEXT,
    *,
    large_ms: int = 0,
) -> None:
    """A group whose first member has sent `messages`, one a millisecond until `last_ms`; nobody has read any."""
    began_ms = last_ms - messages
    head = Head(
        conversation_id=conversation_id, kind="group", created_ms=began_ms, name=conversation_id, large_ms=large_ms
    )
    members = [Member(conversation_id=conversation_id, user_id=user_id, joined_ms=began_ms) for user_id in user_ids]
    rows = [
        Row(
            user_id=user_id,
            conversation_id=conversation_id,
            kind="group",
            name=conversation_id,
            last_message_preview=TEXT,
            last_message_ts=last_ms,
            last_seq=messages,
            joined_ms=began_ms,
        )
        for user_id in user_ids
    ]
    assert await tables.conversations.create(head, members, rows)
    refused = await tables.log.append(_log(conversation_id, user_ids[0], [text() for _ in range(messages)], began_ms))
    assert not any(refused), refused


async def groups(
    tables: Tables, ids: Sequence[str], user_ids: Sequence[str], last_ms: int, *, large_ms: int = 0
) -> None:
    """Many groups of the same members with one message each, the first of `ids` the oldest."""
    for at in range(0, len(ids), AT_ONCE):
        part = enumerate(ids[at : at + AT_ONCE], start=at)
        await asyncio.gather(
            *(group(tables, id_, user_ids, 1, last_ms + 2 * number, large_ms=large_ms) for number, id_ in part)
        )


def _log(conversation_id: str, sender_id: str, texts: Sequence[str], began_ms: int) -> list[Group]:
    entries = [
        Entry(
            conversation_id=conversation_id,
            seq_no=seq,
            kind="message",
            sent_ms=began_ms + seq,
            timestamp=began_ms + seq,
            message_id=f"m{seq}",
            sender_id=sender_id,
            content=Content(text),
            digest=digest_of(Content(text)),
        )
        for seq, text in enumerate(texts, start=1)
    ]
    return [
        Group(conversation_id=conversation_id, entries=tuple(entries[at : at + GROUP_ENTRIES_MAX]))
        for at in range(0, len(texts), GROUP_ENTRIES_MAX)
    ]
