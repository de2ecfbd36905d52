"""The node that all attack tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nodes.attacked_node import Attacked, attacked


@pytest.fixture(scope="session")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with attacked(tmp_path_factory.mktemp("attacks") / "data") as made:
        yield made
