"""PostgreSQL for tests: one server for the whole run (tidings_proof/world/postgres.py).

Where the package is missing, the tests that ask for the `postgres` fixture are skipped, and say so.
"""

from __future__ import annotations

import atexit
import itertools
import os
from collections.abc import Iterator
from functools import cache

import pytest

from tidings_proof.world.dynamodb import NotThere
from tidings_proof.world.postgres import PostgresServer

_schemas = itertools.count(1)


@cache
def start_postgres() -> PostgresServer | NotThere:
    """Started for the first test that asks, stopped when the run ends."""
    try:
        server = PostgresServer()
    except NotThere as missing:
        return missing
    atexit.register(server.stop)
    return server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = start_postgres()
    if isinstance(server, NotThere):
        pytest.skip(f"PostgreSQL: {server}")
    yield server


def fresh_schema() -> str:
    """Tables of its own for a test that needs them."""
    return f"t{os.getpid()}_{next(_schemas)}"
