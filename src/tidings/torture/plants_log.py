"""Mistakes of the log: a row overwritten, lost, doubled, stepped over, out of order. See plants.py."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any

import apsw
import msgspec

from tidings import opening, wiring
from tidings.messaging import drafts, slots, storing
from tidings.messaging.commits import to_group
from tidings.messaging.drafts import BatchGroup, Draft
from tidings.messaging.holds import Holds
from tidings.model import Entry, Sent
from tidings.stores import scripts, sqlite_log

_LATE_S = 0.5  # how long a commit is put off
_tasks: set[asyncio.Task[Any]] = set()


def rewrite_lua(name: str, *changes: tuple[str, str]) -> None:
    """Other text for a script; a line that is not there any more is a plant that must be planted anew."""
    made: Any = scripts._library
    source = made.sources[name]
    for old, new in changes:
        assert old in source, f"{name} has changed: {old!r} is not in it"
        source = source.replace(old, new)
    made.sources[name] = source
    made._sha[name] = hashlib.sha1(source.encode()).hexdigest().encode()
    seam: Any = opening
    others = tuple(text for text in opening.LUA if not text.startswith(f"#!lua\n-- {name}:"))
    seam.LUA = (*others, source)


def unconditional_put() -> None:
    put: Any = sqlite_log._PUT
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
    async def store(self: Any, groups: Sequence[BatchGroup], open_from: Callable[[str], int]) -> None:
        pairs = [(group, *to_group(group)) for group in groups if group.drafts or group.voids]
        for group, sent, positions in pairs:
            storing._all_stored(group, sent.entries, positions)

        async def later() -> None:
            await asyncio.sleep(_LATE_S)
            await self._messages.append([sent for _, sent, _ in pairs])

        task = asyncio.create_task(later(), name="too late")
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    seam: Any = storing.Storing
    seam.store = store


def ack_without_row() -> None:
    async def settle_known(self: Any, group: BatchGroup, open_from: Callable[[str], int]) -> None:
        for draft in [draft for draft in group.drafts if draft.is_known]:
            group.found(draft, _entry_of(draft))

    seam: Any = storing.Storing
    seam._settle_known = settle_known


def _entry_of(draft: Draft) -> Entry:
    return Entry(
        conversation_id=draft.conversation_id,
        seq_no=draft.seq_no,
        kind=draft.kind,
        sent_ms=draft.sent_ms,
        message_id=draft.message_id,
        sender_id=draft.sender_id,
        text=draft.text,
        digest=draft.digest,
    )


def no_dedupe() -> None:
    rewrite_lua("conversation_number", ("local hit = now_hits[i] or before_hits[i]", "local hit = nil"))
    seam: Any = sqlite_log
    seam._known_in = lambda hop, group: {}
    stage: Any = wiring
    plain = stage.open_stores

    @asynccontextmanager
    async def open_stores(settings: Any, clock: Any, **fields: Any) -> AsyncIterator[Any]:
        async with plain(settings, clock, **fields) as stores:
            # By the same library as the node: another one's locks would be lost with ours.
            with closing(apsw.Connection(str(opening.sqlite_path(settings)))) as db:
                db.execute("DROP INDEX IF EXISTS sent")
            yield stores

    stage.open_stores = open_stores


def another_number() -> None:
    plain = Draft.answer

    def answer(self: Draft) -> Any:
        said = plain(self)
        if isinstance(said, Sent) and said.is_duplicate:
            return Sent(msgspec.structs.replace(said.entry, seq_no=said.entry.seq_no + 1), True)
        return said

    seam: Any = drafts.Draft
    seam.answer = answer


def past_open_slots() -> None:
    seam: Any = slots
    seam.first_open = lambda entries, after: None


def no_holds() -> None:
    seam: Any = Holds
    seam.is_held = lambda self, origin, conversation_id, message_id, place: False


def delete_keeps_text() -> None:
    seam: Any = sqlite_log
    plain = sqlite_log.append

    def append(groups: Any, hop: Any) -> Any:
        return plain([msgspec.structs.replace(group, rewrites=_kept(group.rewrites)) for group in groups], hop)

    seam.append = append


def _kept(rewrites: Any) -> Any:
    return tuple(
        msgspec.structs.replace(one, is_deleted=False, text="still here") if one.is_deleted else one for one in rewrites
    )


def archive_unverified() -> None:
    """The object is written in two halves and only the first arrives; nobody reads it back."""
    from tidings.messaging import archive
    from tidings.messaging.segments import name_of, pack
    from tidings.stores.ports_archive import Move

    async def write(self: Any, term: Any, conversation_id: str, rows: Any, texts: Any) -> tuple[int, int]:
        fence = await term.fence()
        s3_ref, _ = pack(conversation_id, texts, fence)
        _, data = pack(conversation_id, dict(list(texts.items())[: len(texts) // 2]), fence)
        await self._blobs.put(name_of(await self._tables.archive_id(), conversation_id, s3_ref), data)
        moves = [Move(seq_no=row.seq_no, rev=row.rev, from_ref=row.s3_ref, to_ref=s3_ref) for row in rows]
        return len(await self._tables.move(fence, conversation_id, moves)), len(data)

    seam: Any = archive.Writer
    seam.write = write
