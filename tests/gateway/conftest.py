from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.gateway.served import Gateway, opened


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with opened() as made:
        yield made
