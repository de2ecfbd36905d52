"""One node for all trials of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidings_proof.bench.target.own_node import folder, own_node
from tidings_proof.bench.target.target import Target


@pytest.fixture(scope="session")
def target() -> Iterator[Target]:
    with folder() as data, own_node(data, TIDINGS_LIMITS_SEND="30/60s") as server:
        yield server
