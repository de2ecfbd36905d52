"""The contract of the archive on SQLite."""

from __future__ import annotations

from pathlib import Path

from tests.contracts import conversation
from tests.contracts.archives import ArchivesContract
from tidings.clock import Clock
from tidings.stores.tables.ports import NO_COUNTS, Tables
from tidings.stores.tables.sqlite import adapter


async def opened(path: Path) -> Tables:
    return await adapter.open(f"sqlite://{path}", NO_COUNTS, Clock())


class TestArchives(ArchivesContract): ...


async def test_everything_is_there_after_it_was_closed_and_opened_again(tmp_path: Path) -> None:
    names, fences = set(), []
    for _ in range(2):
        tables = await opened(tmp_path / "kept.db")
        names.add(await tables.archive.id())
        fences.append(await tables.archive.take_fence())
        await tables.close()
    assert len(names) == 1 and fences == [1, 2]


async def test_a_walk_looks_at_no_more_conversations_than_it_was_told(tables: Tables) -> None:
    ids = sorted([await conversation(tables, "alice") for _ in range(7)])
    steps, after_id = [], ""
    while True:
        found, next_id = await tables.archive.candidates(after_id=after_id, before_ms=0, limit=3)
        assert not found  # none has an entry
        steps.append(next_id)
        if next_id is None:
            break
        after_id = next_id
    assert steps == [ids[2], ids[5], None]
