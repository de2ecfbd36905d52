from __future__ import annotations

import pytest

from tests.gateway.conftest import Gateway
from tidings.gateway.auth import AuthSettings
from tidings.gateway.build import GatewaySettings


def test_settings_that_cannot_be_served_refuse_to_build() -> None:
    for auth in (AuthSettings(), AuthSettings(secret="too short")):
        with pytest.raises(ValueError, match="auth: "):
            Gateway(GatewaySettings(auth))


async def test_what_is_built_serves_and_stops(gateway: Gateway) -> None:
    assert gateway.port > 0 and not gateway.server.is_draining
    await gateway.server.stop()
    with pytest.raises(ConnectionRefusedError):
        await gateway.wire()
