"""Pages that are asked for together: one statement, and each caller has the page that it asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contracts import conversation, group, message
from tests.support.waiting import eventually
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.model import Entry
from tidings.stores.tables.ports import NO_COUNTS, Tables
from tidings.stores.tables.postgres import adapter
from tidings.stores.tables.postgres.pages import Asked, Pages
from tidings.stores.tables.postgres.server.bounds import PAGE_STATEMENTS, PAGES_TOGETHER
from tidings.stores.tables.postgres.server.database import Database


@pytest.fixture
async def statements(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[str]]:
    """The statements that were run, as they are begun."""
    run, begun = Database.rows, []

    async def rows(self: Database, table: str, sql: str, *bindings: Any) -> list[Any]:
        begun.append(sql)
        return await run(self, table, sql, *bindings)

    monkeypatch.setattr(Database, "rows", rows)
    yield begun


async def filled(tables: Tables, count: int) -> str:
    id_ = await conversation(tables, "alice", "bob")
    entries = [message(id_, seq_no, message_id=f"m{seq_no}") for seq_no in range(1, count + 1)]
    assert list(await tables.log.append([group(*entries)])) == [None]
    return id_


async def page(tables: Tables, id_: str, before: int, limit: int = 3, *, newest_first: bool = True) -> list[int]:
    found: list[Entry] = await tables.log.page(id_, after=1, before=before, limit=limit, newest_first=newest_first)
    assert all(entry.conversation_id == id_ for entry in found)
    return [entry.seq_no for entry in found]


async def test_pages_that_are_asked_for_together_are_one_statement(tables: Tables, statements: list[str]) -> None:
    ids = [await filled(tables, 6), await filled(tables, 8)]
    statements.clear()
    found = await asyncio.gather(
        page(tables, ids[0], 6), page(tables, ids[1], 9), page(tables, ids[0], 2), page(tables, "none", 9, 1)
    )
    assert list(found) == [[5, 4, 3], [8, 7, 6], [], []]
    assert len(statements) == 1


async def test_each_direction_has_its_order(tables: Tables) -> None:
    id_ = await filled(tables, 6)
    found = await asyncio.gather(*(page(tables, id_, 9, newest_first=is_so) for is_so in (True, False, True, False)))
    assert found == [[6, 5, 4], [2, 3, 4], [6, 5, 4], [2, 3, 4]]


async def test_many_pages_are_read_in_few_statements(tables: Tables, statements: list[str]) -> None:
    id_ = await filled(tables, 6)
    statements.clear()
    found = await asyncio.gather(*(page(tables, id_, 6) for _ in range(PAGES_TOGETHER + 5)))
    assert found == [[5, 4, 3]] * (PAGES_TOGETHER + 5)
    assert len(statements) == PAGE_STATEMENTS


async def test_a_caller_who_goes_away_takes_no_other_with_him(tables: Tables) -> None:
    id_ = await filled(tables, 6)
    gone, there = (asyncio.ensure_future(page(tables, id_, 6)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    assert await there == [5, 4, 3]


class Answers:
    """A database whose statements are answered when the test says so."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[list[Any]]] = []

    async def rows(self, table: str, sql: str, *bindings: Any) -> list[Any]:
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]

    def answer(self) -> None:
        while self.asked:
            self.asked.pop(0).set_result([])


async def test_a_page_that_is_asked_for_while_the_readers_end_is_read() -> None:
    database, asked = Answers(), Asked("c", 0, 9, 1)
    pages = Pages(database, newest_first=False)  # type: ignore[arg-type]

    async def walk() -> None:
        await pages.page(asked)
        await pages.page(asked)

    walking = asyncio.ensure_future(walk())
    await eventually(lambda: len(database.asked) == 1)
    others = [asyncio.ensure_future(pages.page(asked)) for _ in range(PAGE_STATEMENTS - 1)]
    await eventually(lambda: len(database.asked) == PAGE_STATEMENTS)
    database.answer()  # all in the same turn of the loop
    await asyncio.gather(*others)
    await eventually(lambda: bool(database.asked), within_s=5)
    database.answer()
    await walking


async def test_an_error_is_told_to_everybody_who_waits_and_the_next_page_is_read_again(shared_url: str) -> None:
    tables = await adapter.open(shared_url, NO_COUNTS, Clock())
    id_ = await filled(tables, 6)
    await tables.close()
    found = await asyncio.gather(*(page(tables, id_, 6) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in found] == [Unavailable] * 3
    with pytest.raises(Unavailable) as error:
        await page(tables, id_, 6)
    assert (error.value.store, error.value.op) == ("tables", "pages")
