"""The adapter of PostgreSQL: opening, refusing, upgrading, and a server that dies under it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest

from tests.contracts import conversation, group, log, message
from tests.support.servers.postgres_server import fresh_schema
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.tables.ports import NO_COUNTS, Tables
from tidings.stores.tables.postgres import adapter
from tidings_proof.world.dynamodb import NotThere
from tidings_proof.world.postgres import PostgresServer


@pytest.fixture
def own() -> Iterator[PostgresServer]:
    """A server of this test's own: it is killed."""
    try:
        server = PostgresServer()
    except NotThere as missing:
        pytest.skip(f"PostgreSQL: {missing}")
    yield server
    server.stop()


def test_a_name_tells_no_password() -> None:
    name = adapter.name("postgresql://alice:SECRET@db.example:5432/chat?schema=one&sslmode=require")
    assert name == "postgresql://alice@db.example:5432/chat?schema=one"


async def test_nodes_that_start_together_make_the_tables_once(url: str) -> None:
    opened = await asyncio.gather(*(adapter.open(url, NO_COUNTS, Clock()) for _ in range(4)))
    epochs = {await tables.accounts.store_epoch() for tables in opened}
    secrets = {tables.accounts.secret for tables in opened}
    assert len(epochs) == len(secrets) == 1
    for tables in opened:
        await tables.close()


async def test_create_and_check_say_what_there_is(url: str) -> None:
    assert await adapter.check(url, Clock()) == [f"{adapter.name(url)}: missing"]
    assert await adapter.create(url, Clock()) == [adapter.name(url)]
    assert await adapter.create(url, Clock()) == []
    assert await adapter.check(url, Clock()) == []


async def test_an_epoch_is_renewed_after_a_restore(url: str) -> None:
    await adapter.create(url, Clock())
    renewed = await adapter.renew_epoch(url, Clock())
    tables = await adapter.open(url, NO_COUNTS, Clock())
    assert await tables.accounts.store_epoch() == renewed
    await tables.close()


async def test_a_schema_that_is_newer_or_not_ours_is_refused_in_one_line(url: str) -> None:
    await adapter.create(url, Clock())
    place = adapter.Place(url)
    link = await asyncpg.connect(place.dsn)
    await link.execute(f"UPDATE {place.schema}.meta SET value = '99' WHERE key = 'schema_version'")
    with pytest.raises(Unavailable, match="99") as refused:
        await adapter.open(url, NO_COUNTS, Clock())
    other = fresh_schema()
    await link.execute(f"CREATE SCHEMA {other}; CREATE TABLE {other}.guests (name text)")
    with pytest.raises(Unavailable, match="not those of Tidings"):
        await adapter.open(url.replace(place.schema, other), NO_COUNTS, Clock())
    await link.close()
    assert "\n" not in str(refused.value)


async def test_a_database_that_is_away_is_one_line(url: str) -> None:
    with pytest.raises(Unavailable, match="cannot connect to postgresql://postgres@/nowhere"):
        await adapter.open(url.replace("/postgres?", "/nowhere?"), NO_COUNTS, Clock())


async def test_a_database_that_may_lose_commits_is_refused(own: PostgresServer) -> None:
    own.kill()
    own.start("-c", "synchronous_commit=off")
    with pytest.raises(Unavailable, match="synchronous_commit"):
        await adapter.open(own.url("one"), NO_COUNTS, Clock())
    levels = {finding.name: finding.level for finding in await adapter.examine(own.url("one"), Clock())}
    assert levels["tables.reachable"] == "ok"  # no tables yet


async def test_a_server_that_is_killed_loses_nothing_acknowledged_and_is_used_again(own: PostgresServer) -> None:
    tables: Tables = await adapter.open(own.url("one"), NO_COUNTS, Clock())
    c = await conversation(tables, "alice")
    acknowledged: list[int] = []

    async def sender() -> None:
        for seq_no in range(1, 10_000):
            await tables.log.append([group(message(c, seq_no))])
            acknowledged.append(seq_no)

    sending = asyncio.create_task(sender())
    while len(acknowledged) < 20:
        await asyncio.sleep(0)
    own.kill()
    with pytest.raises(Unavailable) as lost:
        await sending
    assert lost.value.op == "append" and lost.value.store == "tables"
    own.start()
    stored = [entry.seq_no for entry in await log(tables, c)]
    assert stored[: len(acknowledged)] == acknowledged and len(stored) <= len(acknowledged) + 1
    await tables.log.append([group(message(c, stored[-1] + 1, message_id="after"))])
    await tables.close()


async def test_without_prepared_statements_it_works_too(url: str) -> None:
    tables = await adapter.open(f"{url}&prepared=off", NO_COUNTS, Clock())
    c = await conversation(tables, "alice")
    assert list(await tables.log.append([group(message(c, 1))])) == [None]
    assert len(await log(tables, c)) == 1
    await tables.close()


def test_a_copy_is_the_databases_own_work(url: str) -> None:
    with pytest.raises(ValueError, match="pg_dump"):
        adapter.back_up(url, None)  # type: ignore[arg-type]
