"""PostgreSQL for the contracts: one server of the run, and a schema that tests share where they can."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.servers.postgres_server import fresh_schema
from tests.support.servers.postgres_server import postgres as postgres
from tidings.clock import Clock
from tidings.stores.tables.ports import NO_COUNTS, Tables
from tidings.stores.tables.postgres import adapter
from tidings_proof.world.postgres import PostgresServer

_OWN = ("test_accounts", "test_archive", "test_devices", "test_inboxes", "test_overrides", "test_pending")


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.url(fresh_schema())


@pytest.fixture(scope="session")
def shared_url(postgres: PostgresServer) -> str:
    return postgres.url(fresh_schema())


@pytest.fixture
async def tables(request: pytest.FixtureRequest, url: str, shared_url: str) -> AsyncIterator[Tables]:
    """On the schema that all tests share, unless the module's suites look at every row there is."""
    is_own = request.module.__name__.rpartition(".")[2] in _OWN
    tables: Tables = await adapter.open(url if is_own else shared_url, NO_COUNTS, Clock())
    yield tables
    await tables.close()
