"""A node with a cold tier, its blobs watched: what was put, read and deleted, in order; and told to go wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from tests.support.messaging.faulty_stores import TurnedClock
from tidings.config.settings import Archive, Settings
from tidings.config.settings import Node as NodeSettings
from tidings.messaging.archive.schedule import Pass
from tidings.messaging.archive.segment import Ref, name_of, parse_ref
from tidings.model import Content, Entry, HistoryPage
from tidings.node import graph
from tidings.node.graph import Core
from tidings.node.stores import Stores
from tidings.stores.blobs.ports import Blob, Blobs
from tidings.stores.tables.values import Group, Move, Recheck

DAY_MS = 86_400_000


class WatchedBlobs:
    """Real blobs. `steps` says what was asked of them; `spoil` changes what is stored."""

    def __init__(self, blobs: Blobs, steps: list[tuple[str, str]]) -> None:
        self._blobs = blobs
        self.steps = steps
        self.spoil: Any = None
        self.gate: asyncio.Event | None = None
        self.error: Exception | None = None

    async def put(self, name: str, data: bytes) -> bool:
        self._note("put", name)
        return await self._blobs.put(name, data if self.spoil is None else self.spoil(data))

    async def get(self, name: str) -> bytes:
        self._note("get", name)
        if self.gate is not None:
            await self.gate.wait()
        return await self._blobs.get(name)

    async def delete(self, name: str) -> None:
        self._note("delete", name)
        await self._blobs.delete(name)

    async def list(self, folder: str) -> AsyncIterator[Sequence[Blob]]:
        async for chunk in self._blobs.list(folder):
            yield chunk

    def _note(self, what: str, name: str) -> None:
        self.steps.append((what, name.rpartition("/")[2]))
        if self.error is not None:
            raise self.error


class WatchedArchive:
    """Real archive tables. Moves are noted among the steps; `before_move` is awaited first."""

    def __init__(self, archive: Any, steps: list[tuple[str, str]]) -> None:
        self._archive = archive
        self._steps = steps
        self.before_move: Any = None

    async def move(self, fence: int, conversation_id: str, moves: Sequence[Move]) -> set[int]:
        if self.before_move is not None:
            await self.before_move()
        self._steps.append(("move", str(moves[0].to_ref)))
        moved: set[int] = await self._archive.move(fence, conversation_id, moves)
        return moved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._archive, name)


@dataclasses.dataclass(frozen=True)
class Freezer:
    core: Core
    blobs: WatchedBlobs
    archive: WatchedArchive
    clock: TurnedClock
    steps: list[tuple[str, str]]

    async def create(self, *user_ids: str, kind: str = "channel") -> str:
        create: Any = self.core.directory.create
        view, _ = await create(user_ids[0], kind=kind, members=list(user_ids[1:]))
        return str(view.head.conversation_id)

    async def fill(self, conversation_id: str, count: int, *, age_days: float = 40, text: str = "text {}") -> list[str]:
        """Messages of alice that long ago, straight into the log; their texts."""
        top = await self.core.tables.log.top(conversation_id)
        began_ms = max(top.sent_ms, self.clock.now_ms() - int(age_days * DAY_MS) - count)
        seqs = range(top.seq_no + 1, top.seq_no + count + 1)
        entries = [
            Entry(
                conversation_id=conversation_id,
                seq_no=seq_no,
                kind="message",
                sent_ms=began_ms + at,
                message_id=f"old{seq_no}",
                sender_id="alice",
                content=Content(text.format(seq_no)),
            )
            for at, seq_no in enumerate(seqs, start=1)
        ]
        for start in range(0, count, 40):
            refused = await self.core.tables.log.append(
                [Group(conversation_id=conversation_id, entries=tuple(entries[start : start + 40]))]
            )
            assert refused == [None]
        return [entry.text or "" for entry in entries]

    async def run(self, **fields: Any) -> Pass:
        return await self.core.cold.archiving.run(**fields)

    async def rows(self, conversation_id: str) -> list[Entry]:
        """As they are in the table."""
        return await self.core.tables.log.page(
            conversation_id, after=0, before=1 << 53, limit=1_000_000, newest_first=False
        )

    async def refs(self, conversation_id: str) -> list[Ref]:
        return sorted({parse_ref(row.s3_ref) for row in await self.rows(conversation_id) if row.s3_ref is not None})

    async def texts(self, user_id: str, conversation_id: str, limit: int = 100) -> list[str | None]:
        """The texts of all entries, oldest first, paged back through history."""
        texts: list[str | None] = []
        before: int | None = None
        while True:
            page = await self.page(user_id, conversation_id, before_seq=before, limit=limit)
            texts += [entry.text for entry in page.entries]
            if page.next_before_seq is None:
                return texts[::-1]
            before = page.next_before_seq

    async def page(self, user_id: str, conversation_id: str, **place: Any) -> HistoryPage:
        return await self.core.history.page(user_id, conversation_id, **place)

    async def objects(self) -> list[str]:
        """Names of all there are, without their folder."""
        folder = await self.archive.id()
        return sorted([blob.name.rpartition("/")[2] async for chunk in self.blobs.list(folder) for blob in chunk])

    async def content(self) -> bytes:
        """Every text that any object holds."""
        folder = await self.archive.id()
        names = [blob.name async for chunk in self.blobs.list(folder) for blob in chunk]
        return b"".join([zlib.decompress((await self.blobs._blobs.get(name))[50:]) for name in names])

    async def rechecks(self) -> list[Recheck]:
        return list(await self.archive.rechecks(after=("", ""), limit=1_000))

    async def damage(self, conversation_id: str, s3_ref: str, data: bytes | None) -> None:
        """Another content for an object, or none."""
        name = name_of(await self.archive.id(), conversation_id, s3_ref)
        await self.blobs._blobs.delete(name)
        if data is not None:
            await self.blobs._blobs.put(name, data)

    async def stored(self, conversation_id: str, s3_ref: str) -> bytes:
        return await self.blobs._blobs.get(name_of(await self.archive.id(), conversation_id, s3_ref))

    def count(self, what: str) -> float:
        return self.core.metrics.archive[what].value


@asynccontextmanager
async def open_freezer(
    settings: Settings, *, after_days: int | None = 30, every_s: int = 3600, node_id: str = "one"
) -> AsyncIterator[Freezer]:
    clock, steps = TurnedClock(), list[tuple[str, str]]()
    archiving = Archive(after_days=after_days, every_s=every_s)
    settings = dataclasses.replace(settings, archive=archiving, node=NodeSettings(id=node_id))
    async with graph.open_core(settings, clock) as plain:
        stores = {field.name: getattr(plain, field.name) for field in dataclasses.fields(Stores)}
        blobs, archive = WatchedBlobs(plain.blobs, steps), WatchedArchive(plain.tables.archive, steps)
        tables = dataclasses.replace(plain.tables, archive=cast(Any, archive))
        core = graph.build(Stores(**{**stores, "blobs": blobs, "tables": tables}))
        yield Freezer(core, blobs, archive, clock, steps)
