"""`pytest tests/simulation --sim-seed N` plays one seed and tells its story."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sim-seed", type=int, default=None, help="play this seed alone, and tell what happened")


@pytest.fixture
def sim_seed(request: pytest.FixtureRequest) -> int | None:
    """None: none was named (or the option is not known, when pytest was started from above)."""
    found: int | None = request.config.getoption("--sim-seed", default=None)
    return found
