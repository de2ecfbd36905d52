"""The contract of the search index on PostgreSQL, and removals beside a put."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contracts import fresh
from tests.contracts.search import SearchContract, doc, found, index_of, put
from tidings.stores.tables.ports import Tables
from tidings.stores.tables.postgres import search
from tidings.stores.tables.postgres.server.database import Statements
from tidings.stores.tables.search import Term


class TestSearch(SearchContract): ...


@pytest.mark.parametrize(("how", "indexed"), [("forget", 0), ("forget", 1), ("clear", 1)])
async def test_words_that_are_put_beside_a_removal_go_too(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, how: str, indexed: int
) -> None:
    index, c = index_of(tables), fresh("c")
    assert isinstance(index, search.PostgresSearch)
    if indexed:
        await put(index, c, [doc(1, "first")], after=0, up_to=1)
    is_put, may_commit, write = asyncio.Event(), asyncio.Event(), Statements.write

    async def write_and_wait(self: Statements, table: str, sql: str, *bindings: Any) -> int:
        done = await write(self, table, sql, *bindings)
        if sql == search._PUT:
            is_put.set()
            await may_commit.wait()
        return done

    monkeypatch.setattr(Statements, "write", write_and_wait)
    putting = asyncio.ensure_future(put(index, c, [doc(2, "second")], after=indexed, up_to=2))
    await is_put.wait()
    removing = asyncio.ensure_future(index.forget(c) if how == "forget" else index.clear())
    async with asyncio.timeout(60):
        while not await index._database.rows("locks", "SELECT 1 FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.005)
    may_commit.set()
    await asyncio.gather(putting, removing)
    assert await index.cursors([c]) == {} and await found(index, [c], Term(("second",))) == []
