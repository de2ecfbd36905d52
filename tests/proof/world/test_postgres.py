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
