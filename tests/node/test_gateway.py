from __future__ import annotations

import pytest

from tests.support.gateway.served import Gateway, opened
from tidings.config.settings import Auth, Settings


def test_settings_that_cannot_be_served_refuse_to_build() -> None:
    for auth in (Auth(), Auth(secret="too short")):
        with pytest.raises(ValueError, match="auth: "):
            Gateway(Settings(auth=auth))


async def test_what_is_built_serves_and_stops() -> None:
    async with opened() as gateway:
        assert gateway.port > 0 and not gateway.server.is_draining
    with pytest.raises(ConnectionRefusedError):
        await gateway.wire()
