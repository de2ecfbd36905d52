from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.conftest import SECRET, Gateway, opened
from tests.gateway.wire import Wire, http
from tidings.clock import Clock
from tidings.errors import Forbidden
from tidings.gateway.auth import AuthSettings, Caller
from tidings.gateway.bodies import TokenRequest
from tidings.gateway.build import GatewaySettings
from tidings.gateway.http_accounts import AccountRoutes
from tidings.gateway.routes import Request

DEV = GatewaySettings(AuthSettings(secret=SECRET), is_dev=True)


async def test_a_profile_is_never_required_first(gateway: Gateway) -> None:
    assert (await gateway.rest("GET", "/v1/users/alice"))[2] == {"user_id": "alice", "name": None, "avatar_url": None}


async def test_a_user_sets_the_own_profile_and_sees_no_other(gateway: Gateway) -> None:
    profile = {"name": "Alice", "avatar_url": "https://example.com/a.png"}
    assert (await gateway.rest("PUT", "/v1/users/alice", profile))[0] == 200
    assert (await gateway.rest("GET", "/v1/users/alice"))[2] == {"user_id": "alice"} | profile
    assert (await gateway.rest("GET", "/v1/users/alice", user_id="bob"))[0] == 404
    assert (await gateway.rest("PUT", "/v1/users/alice", profile, user_id="bob"))[0] == 404


async def test_a_server_key_sets_any_profile(gateway: Gateway) -> None:
    headers = {"X-Api-Key": await gateway.api_key()}
    assert (await http(gateway.port, "PUT", "/v1/users/bob", {"name": "Bob"}, headers))[0] == 200
    assert (await http(gateway.port, "GET", "/v1/users/bob", None, headers))[2]["name"] == "Bob"


async def test_revoking_refuses_old_tokens_closes_sockets_and_keeps_the_profile(gateway: Gateway) -> None:
    headers = {"X-Api-Key": await gateway.api_key()}
    await gateway.rest("PUT", "/v1/users/alice", {"name": "Alice"})
    wire, old = await gateway.wire(), gateway.token()
    gateway.clock.ahead_s += 0.005
    status, _, body = await http(gateway.port, "POST", "/v1/users/alice/revoke", None, headers)
    assert status == 200 and body["user_id"] == "alice"
    assert await wire.closed() == 4503
    assert (await gateway.rest("GET", "/v1/inbox", Authorization=f"Bearer {old}"))[0] == 401
    again = await Wire.open(gateway.port)
    assert (await again.connect(old))["code"] == "unauthorized"
    gateway.clock.ahead_s += 0.005
    assert (await gateway.rest("GET", "/v1/users/alice"))[2]["name"] == "Alice"


async def test_only_a_server_key_revokes(gateway: Gateway) -> None:
    assert (await gateway.rest("POST", "/v1/users/alice/revoke"))[0] == 403
    headers = {"X-Api-Key": await gateway.api_key("readonly")}
    assert (await http(gateway.port, "POST", "/v1/users/alice/revoke", None, headers))[0] == 403
    assert (await http(gateway.port, "POST", "/v1/users/alice/revoke"))[0] == 401


async def test_tokens_for_anyone_exist_only_in_dev(gateway: Gateway) -> None:
    assert (await http(gateway.port, "POST", "/v1/dev/token", {"user_id": "alice"}))[0] == 404
    async with opened(DEV) as dev:
        status, _, body = await http(dev.port, "POST", "/v1/dev/token", {"user_id": "alice"})
        assert status == 200
        assert (await (await Wire.open(dev.port)).connect(body["token"]))["user_id"] == "alice"
        assert (await http(dev.port, "POST", "/v1/dev/token", {"user_id": "a{b"}))[0] == 400


async def test_a_dev_token_has_the_issuer_and_the_audience_that_are_wanted() -> None:
    auth = AuthSettings(secret=SECRET, issuer="me", audience="chat")
    async with opened(GatewaySettings(auth, is_dev=True)) as dev:
        _, _, body = await http(dev.port, "POST", "/v1/dev/token", {"user_id": "alice"})
        assert (await (await Wire.open(dev.port)).connect(body["token"]))["user_id"] == "alice"


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}])
async def test_a_page_of_another_site_gets_no_dev_token(headers: dict[str, str]) -> None:
    async with opened(DEV) as dev:
        assert (await http(dev.port, "POST", "/v1/dev/token", {"user_id": "alice"}, headers))[0] == 403


@pytest.mark.parametrize(
    ("peer", "host", "may"),
    [
        ("127.0.0.1", b"localhost:8000", True),
        ("::1", b"[::1]:8000", True),
        ("::1", b"[::1]", True),
        ("192.168.1.5", b"localhost:8000", False),
        (None, b"localhost:8000", False),
        ("127.0.0.1", b"", False),
    ],
)
async def test_a_dev_token_is_for_this_machine(peer: str | None, host: bytes, may: bool) -> None:
    nobody: Any = None
    routes = AccountRoutes(nobody, nobody, nobody, Clock(), nobody, AuthSettings(secret=SECRET))
    request = Request("POST", (), Caller(None, None, ""), None, TokenRequest("alice"), peer, [(b"host", host)])
    if may:
        assert (await routes.dev_token(request)).status == 200
    else:
        with pytest.raises(Forbidden):
            await routes.dev_token(request)
