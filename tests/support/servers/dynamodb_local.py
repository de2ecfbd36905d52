"""AWS's DynamoDB Local for tests: one server for the whole run (tidings/proof/src/tidings_proof/world/dynamodb.py).

Where java or npm is missing the tests that ask for the `dynamodb` fixture are skipped, and say which of them it was.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tidings_proof.world.dynamodb import DynamoLocal, NotThere

_prefixes = itertools.count(1)


@cache
def start_dynamodb() -> DynamoLocal | NotThere:
    """Started by whoever asks first, stopped when the run ends."""
    folder = Path(tempfile.mkdtemp(prefix="tidings-dynamodb-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        server = DynamoLocal(folder)
    except NotThere as missing:
        return missing
    atexit.register(server.stop)
    return server


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[DynamoLocal]:
    server = start_dynamodb()
    if isinstance(server, NotThere):
        pytest.skip(f"DynamoDB Local: {server}")
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "local")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "local")
    yield server
    if start_dynamodb.cache_info().currsize:  # several folders have this fixture, and share the server
        start_dynamodb.cache_clear()
        atexit.unregister(server.stop)  # a worker of a test run may end without its exit functions
        server.stop()


def fresh_prefix() -> str:
    """Tables of its own for a test that needs them."""
    return f"t{next(_prefixes)}_"
