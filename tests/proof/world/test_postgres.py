"""The PostgreSQL server of a world: it starts, crashes, recovers and leaves nothing behind."""

from __future__ import annotations

import asyncpg
import pytest

from tidings_proof.world.dynamodb import NotThere
from tidings_proof.world.postgres import PostgresServer


async def test_what_was_committed_is_there_after_a_crash() -> None:
    try:
        server = PostgresServer()
    except NotThere as missing:
        pytest.skip(f"PostgreSQL: {missing}")
    try:
        url = server.url("public").partition("&schema")[0]
        link = await asyncpg.connect(url)
        await link.execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
        server.kill()
        assert not server.is_running
        server.start()
        again = await asyncpg.connect(url)
        assert await again.fetchval("SELECT n FROM kept") == 7
        await again.close()
    finally:
        server.stop()
    assert not server.is_running


@pytest.mark.long
async def test_a_synchronous_replica_that_takes_over_has_every_commit_and_may_fail_over_again() -> None:
    try:
        server = PostgresServer()
    except NotThere as missing:
        pytest.skip(f"PostgreSQL: {missing}")
    try:
        url = server.url("public").partition("&schema")[0]
        link = await asyncpg.connect(url)
        await link.execute("CREATE TABLE kept (n int)")
        for n in range(2):
            again = await asyncpg.connect(url)
            await again.execute("INSERT INTO kept VALUES ($1)", n)
            server.fail_over()
            after = await asyncpg.connect(url)
            assert await after.fetchval("SELECT count(*) FROM kept") == n + 1
            await after.execute("CREATE TABLE IF NOT EXISTS more (n int)")  # it takes writes
            await after.close()
        server.kill()
        server.start()
        assert server.is_running
    finally:
        server.stop()


async def test_a_server_whose_files_may_not_grow_loses_no_commit() -> None:
    try:
        server = PostgresServer()
    except NotThere as missing:
        pytest.skip(f"PostgreSQL: {missing}")
    try:
        url = server.url("public").partition("&schema")[0]
        link = await asyncpg.connect(url)
        await link.execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
        server.limit_files(4_096)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await link.execute("INSERT INTO kept SELECT generate_series(1, 200000)")
        server.limit_files(None)
        server.kill()
        server.start()
        again = await asyncpg.connect(url)
        assert await again.fetchval("SELECT max(n) FROM kept") == 7
        await again.close()
    finally:
        server.stop()
