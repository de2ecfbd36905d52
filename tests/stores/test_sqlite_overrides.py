"""The contract of overrides on SQLite, and that an older file gets its table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.overrides import OverridesContract, override
from tidings.clock import Clock
from tidings.stores.sqlite_overrides import SqliteOverrides, open_overrides
from tidings.stores.tables_sqlite import SqliteTables, open_sqlite


async def opened(path: Path) -> SqliteTables:
    return await open_sqlite(path, count_read=lambda t, n: None, count_write=lambda t, n: None, clock=Clock())


@pytest.fixture
async def overrides(tmp_path: Path) -> AsyncIterator[SqliteOverrides]:
    tables = await opened(tmp_path / "tidings.db")
    yield await open_overrides(tables.reads, tables.writes, Clock())
    await tables.close()


class TestOverrides(OverridesContract): ...


async def test_they_are_there_after_the_file_was_closed_and_opened_again(tmp_path: Path) -> None:
    kept, versions = override("bob"), []
    for is_first in (True, False):
        tables = await opened(tmp_path / "kept.db")
        overrides = await open_overrides(tables.reads, tables.writes, Clock())
        if is_first:
            assert (await overrides.overrides(), await overrides.overrides_version()) == ([], "")
            await overrides.put_override(kept)
        assert await overrides.overrides() == [kept]
        versions.append(await overrides.overrides_version())
        await tables.close()
    assert versions[0] == versions[1] != ""
