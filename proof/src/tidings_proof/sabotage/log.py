"""Mistakes of the log: a row overwritten, lost, doubled, stepped over, out of order. See plants.py."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import apsw
import msgspec

from tidings.config.settings import tables_url
from tidings.errors import Throttled
from tidings.messaging import log as slots
from tidings.messaging.limits.held import Holds
from tidings.messaging.send import draft as drafts
from tidings.messaging.send import store as storing
from tidings.messaging.send.batch import Batch, BatchGroup
from tidings.messaging.send.draft import Draft
from tidings.messaging.send.store import Store
from tidings.model import Content, Entry, Sent
from tidings.node import graph
from tidings.node import stores as opening
from tidings.stores.keyspace.scripts import messaging as scripts
from tidings.stores.tables.open import adapter_of
from tidings.stores.tables.sqlite import log as sqlite_log
from tidings_proof.sabotage.seams import replace

_LATE_S = 0.5  # how long a commit is put off
_tasks: set[asyncio.Task[Any]] = set()


def rewrite_lua(name: str, *changes: tuple[str, str]) -> None:
    """Change the text of a script. Fails when a line is not in it any more: the plant must be planted anew."""
    made: Any = scripts._library
    source = made.sources[name]
    for old, new in changes:
        assert old in source, f"{name} has changed: {old!r} is not in it"
        source = source.replace(old, new)
    made.sources[name] = source
    made._sha[name] = hashlib.sha1(source.encode()).hexdigest().encode()
    others = tuple(text for text in vars(opening)["LUA"] if not text.startswith(f"#!lua\n-- {name}:"))
    replace(opening, "LUA", (*others, source))


def unconditional_put() -> None:
    put: Any = sqlite_log._PUT
    puts = ("INSERT OR FAIL", "INSERT OR REPLACE")  # the second: it is planted already
    assert put._texts and all(text.startswith(puts) for text in put._texts.values()), "the statement has changed"
    put._texts = {size: text.replace("OR FAIL", "OR REPLACE") for size, text in put._texts.items()}


def counter_from_nothing() -> None:
    rewrite_lua(
        "conversation_number",
        ("if not c[1] or c[3] ~= epoch then", "if false then"),
        ("tonumber(c[1]), tonumber(c[2])", "tonumber(c[1] or 0), tonumber(c[2] or 0)"),
        ("tonumber(c[4])", "tonumber(c[4] or 0)"),
    )
    unconditional_put()


def ack_before_commit() -> None:
    async def commit(self: Any, batch: Batch) -> None:
        pairs = [(group, *storing.to_group(group)) for group in batch.live if group.drafts or group.voids]
        for group, sent, positions in pairs:
            storing.take_stored(group, sent.entries, positions, None)

        async def later() -> None:
            await asyncio.sleep(_LATE_S)
            await self.messages.append([sent for _, sent, _ in pairs])

        task = asyncio.create_task(later(), name="too late")
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    replace(storing.Store, "commit", commit)


def ack_without_row() -> None:
    async def settle_known(self: Any, group: BatchGroup) -> None:
        for draft in [draft for draft in group.drafts if draft.is_known]:
            group.found(draft, _entry_of(draft))

    replace(storing.Store, "_settle_known", settle_known)


def _entry_of(draft: Draft) -> Entry:
    return Entry(
        conversation_id=draft.conversation_id,
        seq_no=draft.seq_no,
        kind=draft.kind,
        sent_ms=draft.sent_ms,
        message_id=draft.message_id,
        sender_id=draft.sender_id,
        content=draft.content,
        digest=draft.digest,
    )


def clock_is_trusted() -> None:
    """The time of an entry is the server's, although that may go back."""
    rewrite_lua("conversation_number", ("clock_ms >= at and clock_ms or at + 1", "clock_ms"))


def hot_is_stored() -> None:
    """A group that the tables refused for the moment is taken for stored."""
    plain = Store.commit

    async def commit(self: Any, batch: Any) -> None:
        messages = self.messages

        class Hopeful:
            def __getattr__(self, name: str) -> Any:
                return getattr(messages, name)

            async def append(self, groups: Any) -> Any:
                try:
                    answers = await messages.append(groups)
                except Throttled:
                    return [None] * len(groups)
                return [None if isinstance(answer, Throttled) else answer for answer in answers]

        self.messages = Hopeful()
        try:
            await plain(self, batch)
        finally:
            self.messages = messages

    replace(Store, "commit", commit)


def no_dedupe() -> None:
    rewrite_lua("conversation_number", ("local hit = now_hits[i] or before_hits[i]", "local hit = nil"))
    replace(sqlite_log, "_known_in", lambda tx, group: {})
    plain = vars(graph)["open_stores"]

    @asynccontextmanager
    async def open_stores(settings: Any, clock: Any, **fields: Any) -> AsyncIterator[Any]:
        url = tables_url(settings)
        async with plain(settings, clock, **fields) as stores:
            # By the same library as the node: another one's locks would be lost with ours.
            with closing(apsw.Connection(adapter_of(url).name(url))) as db:
                db.execute("DROP INDEX IF EXISTS sent")
            yield stores

    replace(graph, "open_stores", open_stores)


def another_number() -> None:
    plain = Draft.answer

    def answer(self: Draft) -> Any:
        said = plain(self)
        if isinstance(said, Sent) and said.is_duplicate:
            return Sent(msgspec.structs.replace(said.entry, seq_no=said.entry.seq_no + 1), True)
        return said

    replace(drafts.Draft, "answer", answer)


def past_open_slots() -> None:
    replace(slots, "first_open", lambda entries, after: None)


def no_holds() -> None:
    replace(Holds, "is_held", lambda self, origin, conversation_id, message_id, place: False)


def delete_keeps_text() -> None:
    plain = sqlite_log.append

    def append(groups: Any, tx: Any) -> Any:
        return plain([msgspec.structs.replace(group, rewrites=_kept(group.rewrites)) for group in groups], tx)

    replace(sqlite_log, "append", append)


def _kept(rewrites: Any) -> Any:
    back = {"is_deleted": False, "content": Content("still here")}
    return tuple(msgspec.structs.replace(one, **back) if one.is_deleted else one for one in rewrites)


def archive_unverified() -> None:
    """The object is written in two halves and only the first arrives; nobody reads it back."""
    from tidings.messaging.archive import mover as archive
    from tidings.messaging.archive.segment import name_of, pack
    from tidings.stores.tables.values import Move

    async def write(self: Any, term: Any, conversation_id: str, rows: Any, texts: Any) -> tuple[int, int]:
        fence = await term.fence()
        s3_ref, _ = pack(conversation_id, texts, fence)
        _, data = pack(conversation_id, dict(list(texts.items())[: len(texts) // 2]), fence)
        await self._blobs.put(name_of(await self._archive.id(), conversation_id, s3_ref), data)
        moves = [Move(seq_no=row.seq_no, rev=row.rev, from_ref=row.s3_ref, to_ref=s3_ref) for row in rows]
        return len(await self._archive.move(fence, conversation_id, moves)), len(data)

    replace(archive.Writer, "write", write)
