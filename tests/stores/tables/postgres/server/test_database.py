"""Statements and their errors: what is ambiguous, what is not, and that a failed transaction leaves nothing."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from tidings.clock import Clock
from tidings.errors import Throttled, Unavailable
from tidings.stores.tables.ports import NO_COUNTS
from tidings.stores.tables.postgres import adapter
from tidings.stores.tables.postgres.server.database import Database, Link, columns, unnested


@pytest.fixture
async def database(url: str) -> Database:
    await adapter.create(url, Clock())
    place = adapter.Place(url)
    pool = await asyncpg.create_pool(**place.options, min_size=1, max_size=4, connection_class=Link)
    return Database(pool, place.schema, NO_COUNTS)


async def test_a_transaction_that_fails_leaves_nothing(database: Database) -> None:
    with pytest.raises(ValueError, match="no"):
        async with database.transaction() as tx:
            await tx.write("meta", "INSERT INTO @meta VALUES ('a', 'b')")
            raise ValueError("no")
    assert await database.rows("meta", "SELECT 1 FROM @meta WHERE key = 'a'") == []
    await database.close()


async def test_two_that_wait_for_each_other_end_as_throttled_and_nothing_is_lost(database: Database) -> None:
    await database.write("meta", "INSERT INTO @meta VALUES ('a', '0'), ('b', '0')")
    met = asyncio.Barrier(2)

    async def both(first: str, second: str) -> None:
        async with database.transaction() as tx:
            await tx.write("meta", "UPDATE @meta SET value = '1' WHERE key = $1", first)
            await met.wait()
            await tx.write("meta", "UPDATE @meta SET value = '1' WHERE key = $1", second)

    outcomes = await asyncio.gather(both("a", "b"), both("b", "a"), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes if outcome is not None] == [Throttled]
    await database.close()


async def test_a_statement_that_is_ended_in_the_middle_may_have_happened(database: Database) -> None:
    async def ended(sql: str) -> Unavailable:
        slow = asyncio.create_task(database.write("meta", sql))
        running = "query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()"
        find = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {running}"
        while not await database.rows("meta", find):
            await asyncio.sleep(0.01)
        with pytest.raises(Unavailable) as lost:
            await slow
        return lost.value

    assert (await ended("INSERT INTO @meta SELECT 'c', pg_sleep(60)::text")).is_ambiguous
    with pytest.raises(Unavailable) as refused:
        await database.write("meta", "INSERT INTO @nothing VALUES (1)")
    assert not refused.value.is_ambiguous
    await database.close()


def test_rows_are_bound_as_columns() -> None:
    assert columns([(1, "a"), (2, "b")], 2) == [[1, 2], ["a", "b"]]
    assert columns([], 2) == [[], []]
    assert unnested(("text", "bigint"), 3) == "unnest($3::text[], $4::bigint[])"
