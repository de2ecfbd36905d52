"""The doctor's findings about a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidings.clock import Clock
from tidings.stores.tables.postgres import adapter
from tidings_proof.world.dynamodb import NotThere
from tidings_proof.world.postgres import PostgresServer


@pytest.fixture(scope="module")
def careless() -> Iterator[PostgresServer]:
    """A server with every setting that an operator should not have."""
    try:
        server = PostgresServer()
    except NotThere as missing:
        pytest.skip(f"PostgreSQL: {missing}")
    server.kill()
    server.start("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "autovacuum=off")
    yield server
    server.stop()


async def test_a_good_database_has_no_finding_that_asks_for_work(url: str) -> None:
    await adapter.create(url, Clock())
    findings = await adapter.examine(url, Clock())
    assert {finding.level for finding in findings} == {"ok"}
    assert {finding.name for finding in findings} == {
        "tables.schema",
        "tables.write",
        "tables.durable",
        "tables.long_transactions",
        "tables.vacuum",
        "tables.latency",
    }


async def test_settings_that_lose_messages_are_wrong(careless: PostgresServer) -> None:
    await adapter.create(careless.url("one"), Clock())
    found = [one for one in await adapter.examine(careless.url("one"), Clock()) if one.level != "ok"]
    assert [(one.level, one.says.partition(" ")[0]) for one in found] == [
        ("wrong", "fsync"),
        ("wrong", "full_page_writes"),
        ("advice", "autovacuum"),
    ]


async def test_a_database_that_does_not_answer_is_wrong(url: str) -> None:
    (finding,) = await adapter.examine(url.replace("/postgres?", "/nowhere?"), Clock())
    assert (finding.name, finding.level) == ("tables.reachable", "wrong") and finding.fix
