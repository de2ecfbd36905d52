"""The contract of overrides on SQLite."""

from __future__ import annotations

from pathlib import Path

from tests.contracts.overrides import OverridesContract, override
from tidings.clock import Clock
from tidings.stores.tables.ports import NO_COUNTS, Tables
from tidings.stores.tables.sqlite import adapter


async def opened(path: Path) -> Tables:
    return await adapter.open(f"sqlite://{path}", NO_COUNTS, Clock())


class TestOverrides(OverridesContract): ...


async def test_they_are_there_after_the_file_was_closed_and_opened_again(tmp_path: Path) -> None:
    kept, versions = override("bob"), []
    for is_first in (True, False):
        tables = await opened(tmp_path / "kept.db")
        if is_first:
            assert (await tables.overrides.all(), await tables.overrides.version()) == ([], "")
            await tables.overrides.put(kept)
        assert await tables.overrides.all() == [kept]
        versions.append(await tables.overrides.version())
        await tables.close()
    assert versions[0] == versions[1] != ""
