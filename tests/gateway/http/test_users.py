from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.support.gateway.raw_websocket import Wire, http
from tests.support.gateway.served import SECRET, Gateway, opened
from tidings.clock import Clock
from tidings.config.settings import Auth, Settings
from tidings.errors import Forbidden
from tidings.gateway.auth import Caller
from tidings.gateway.http.routes import Request
from tidings.gateway.http.users import AccountRoutes
from tidings.protocol.people_bodies import TokenRequest

DEV = Settings(auth=Auth(secret=SECRET), dev=True)
LISTED = Settings(auth=Auth(secret=SECRET), picture_hosts=("example.com", "*.pictures.test"))


async def test_a_profile_is_never_required_first(gateway: Gateway) -> None:
    assert (await gateway.rest("GET", "/v1/users/alice"))[2] == {"user_id": "alice", "name": None, "avatar_url": None}


async def test_a_user_sets_the_own_profile_and_sees_no_other(gateway: Gateway) -> None:
    profile = {"name": "Alice", "avatar_url": None}
    assert (await gateway.rest("PUT", "/v1/users/alice", profile))[0] == 200
    assert (await gateway.rest("GET", "/v1/users/alice"))[2] == {"user_id": "alice"} | profile
    assert (await gateway.rest("GET", "/v1/users/alice", user_id="bob"))[0] == 404
    assert (await gateway.rest("PUT", "/v1/users/alice", profile, user_id="bob"))[0] == 404


async def test_a_picture_comes_from_a_host_that_the_operator_lists(gateway: Gateway) -> None:
    picture = {"avatar_url": "https://example.com/a.png"}
    assert (await gateway.rest("PUT", "/v1/users/alice", picture))[0] == 400, "none is listed"
    group = {"kind": "group", "members": ["bob"], "avatar_url": "https://tracker.example/g.png?who=bob"}
    async with opened(LISTED) as listed:
        assert (await listed.rest("PUT", "/v1/users/alice", picture))[0] == 200
        status, _, body = await listed.rest("POST", "/v1/conversations", group)
        assert status == 400 and "TIDINGS_PICTURE_HOSTS" in body["error"]["message"]
        assert (await listed.rest("PATCH", "/v1/conversations/c1", {"avatar_url": group["avatar_url"]}))[0] == 400


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
    auth = Auth(secret=SECRET, issuer="me", audience="chat")
    async with opened(Settings(auth=auth, dev=True)) as dev:
        _, _, body = await http(dev.port, "POST", "/v1/dev/token", {"user_id": "alice"})
        assert (await (await Wire.open(dev.port)).connect(body["token"]))["user_id"] == "alice"


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}])
async def test_a_page_of_another_site_gets_no_dev_token(headers: dict[str, str]) -> None:
    async with opened(DEV) as dev:
        assert (await http(dev.port, "POST", "/v1/dev/token", {"user_id": "alice"}, headers))[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "203.0.113.9"},
        {"X-Forwarded-Host": "tunnel.example"},
        {"X-Forwarded-Proto": "https"},
        {"Forwarded": "for=203.0.113.9"},
        {"X-Real-IP": "203.0.113.9"},
        {"Via": "1.1 tunnel"},
    ],
    ids=str,
)
async def test_who_comes_through_a_tunnel_gets_no_dev_token(headers: dict[str, str]) -> None:
    """A tunnel connects from loopback and may rewrite the host: only what it forwards for gives it away."""
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
    routes = AccountRoutes(nobody, nobody, nobody, Clock(), nobody, nobody, Auth(secret=SECRET), nobody, nobody, nobody)
    request = Request("POST", (), Caller(None, None, ""), None, TokenRequest("alice"), peer, [(b"host", host)])
    if may:
        assert (await routes.dev_token(request)).status == 200
    else:
        with pytest.raises(Forbidden):
            await routes.dev_token(request)


IDS = ("auth0|5f7c", "google-oauth2|1", "a+b@example.com", "urn:user:7")


@pytest.mark.parametrize("user_id", IDS)
async def test_ids_as_identity_providers_make_them_are_users(gateway: Gateway, user_id: str) -> None:
    path = "/v1/users/" + quote(user_id, safe="")
    assert (await gateway.rest("PUT", path, {"name": "N"}, user_id=user_id))[0] == 200
    assert (await gateway.rest("GET", "/v1/users/" + user_id, user_id=user_id))[2]["user_id"] == user_id
    assert (await gateway.rest("PUT", "/v1/blocks/" + quote(user_id, safe="")))[0] == 204
    assert (await gateway.wire(user_id)) is not None
    headers = {"X-Api-Key": await gateway.api_key(), "X-User-Id": user_id}
    assert (await http(gateway.port, "GET", "/v1/inbox", None, headers))[0] == 200


async def test_why_a_token_is_refused_is_told_with_dev_only(gateway: Gateway) -> None:
    bad = {"Authorization": "Bearer nonsense"}
    assert "reason" not in (await http(gateway.port, "GET", "/v1/inbox", None, bad))[2]["error"]
    unknown = {"X-Api-Key": "wrong", "X-User-Id": "alice"}
    assert (await http(gateway.port, "GET", "/v1/inbox", None, unknown))[2]["error"]["reason"] == "unknown_key"
    async with opened(DEV) as dev:
        assert (await http(dev.port, "GET", "/v1/inbox", None, bad))[2]["error"]["reason"] == "malformed"
        assert (await (await Wire.open(dev.port)).connect("nonsense"))["reason"] == "malformed"
