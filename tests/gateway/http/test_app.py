from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.gateway.raw_websocket import Wire, http
from tests.support.gateway.served import SECRET, Gateway, opened
from tidings.bounds import HTTP_BODY_BYTES_MAX
from tidings.config.settings import Auth, Settings
from tidings.errors import BadCursor, BadRequest, Unavailable
from tidings.gateway.http.app import bearer_of, decode_query
from tidings.protocol.bodies import HistoryQuery
from tidings.protocol.own_bodies import InboxQuery


async def test_without_credentials_the_answer_is_401_in_the_documented_form(gateway: Gateway) -> None:
    status, headers, body = await http(gateway.port, "GET", "/v1/inbox")
    assert status == 401 and headers["www-authenticate"] == "Bearer"
    assert body == {
        "error": {
            "code": "unauthorized",
            "message": "No valid token or API key.",
            "temporary": False,
            "retry_after_ms": None,
        }
    }


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", "Basic abc", "Bearer nonsense", "Bearer \xe9"])
async def test_every_bad_credential_gets_the_same_body(gateway: Gateway, value: str) -> None:
    _, _, expected = await http(gateway.port, "GET", "/v1/inbox")
    status, _, body = await gateway.rest("GET", "/v1/inbox", Authorization=value)
    assert (status, body) == (401, expected)


async def test_a_forged_user_id_header_is_ignored(gateway: Gateway) -> None:
    await gateway.rest("GET", "/v1/inbox", X_User_Id="bob", X_Forwarded_For="10.0.0.1")
    assert gateway.inbox.calls[-1][0] == "alice"


async def test_a_server_key_acts_for_the_user_it_names(gateway: Gateway) -> None:
    key = await gateway.api_key()
    status, _, _ = await http(gateway.port, "GET", "/v1/inbox", None, {"X-Api-Key": key, "X-User-Id": "bob"})
    assert status == 200 and gateway.inbox.calls[-1][0] == "bob"
    status, _, body = await http(gateway.port, "GET", "/v1/inbox", None, {"X-Api-Key": key})
    assert (status, body["error"]["reason"]) == (401, "malformed") and "X-User-Id" in body["error"]["message"]
    status, _, _ = await http(gateway.port, "GET", "/v1/inbox", None, {"X-Api-Key": "wrong", "X-User-Id": "bob"})
    assert status == 401


@pytest.mark.parametrize("user_id", ["bob smith", ".", ".."])
async def test_a_server_key_that_names_no_id_is_told_so(gateway: Gateway, user_id: str) -> None:
    headers = {"X-Api-Key": await gateway.api_key(), "X-User-Id": user_id}
    status, _, body = await http(gateway.port, "GET", "/v1/inbox", None, headers)
    assert (status, body["error"]["message"]) == (400, "`X-User-Id` must be a user id")
    headers["X-Api-Key"] = "wrong"
    assert (await http(gateway.port, "GET", "/v1/inbox", None, headers))[0] == 401


@pytest.mark.parametrize("dots", [".", ".."])
async def test_an_id_of_dots_is_a_bad_request_in_paths_and_bodies(gateway: Gateway, dots: str) -> None:
    asked = (
        ("GET", f"/v1/conversations/{dots}", None),
        ("POST", f"/v1/users/{dots}/revoke", None),
        ("POST", "/v1/conversations", {"kind": "direct", "members": [dots]}),
        ("POST", "/v1/conversations/c1/members", {"user_ids": [dots]}),
    )
    headers = {"X-Api-Key": await gateway.api_key(), "X-User-Id": "alice"}
    for method, path, body in asked:
        status, _, answer = await http(gateway.port, method, path, body, headers)
        assert (status, answer["error"]["code"]) == (400, "bad_request"), path


async def test_a_readonly_key_may_not_write(gateway: Gateway) -> None:
    headers = {"X-Api-Key": await gateway.api_key("readonly"), "X-User-Id": "bob"}
    assert (await http(gateway.port, "GET", "/v1/inbox", None, headers))[0] == 200
    status, _, body = await http(gateway.port, "POST", "/v1/conversations", {"kind": "group"}, headers)
    assert (status, body["error"]["code"]) == (403, "forbidden")


async def test_a_refused_budget_is_429_with_its_headers(gateway: Gateway) -> None:
    gateway.limiter.refused.add("http")
    status, headers, body = await gateway.rest("GET", "/v1/inbox")
    assert status == 429 and body["error"]["retry_after_ms"] == 1200
    assert (headers["retry-after"], headers["x-ratelimit-limit"]) == ("2", "7")
    assert (headers["x-ratelimit-remaining"], headers["x-ratelimit-reset"]) == ("0", "2")


@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/v1/inbox/c1/more", "/v1/inbox%2Fc1%2Fx", "/../etc/passwd"])
async def test_an_unknown_path_is_404_in_the_same_form(gateway: Gateway, path: str) -> None:
    status, _, body = await http(gateway.port, "GET", path)
    assert (status, body["error"]["code"]) == (404, "not_found")


async def test_a_wrong_method_names_the_right_ones(gateway: Gateway) -> None:
    status, headers, body = await gateway.rest("POST", "/v1/inbox")
    assert (status, headers["allow"], body["error"]["code"]) == (405, "GET", "bad_request")


async def test_the_head_of_a_page_has_no_body(gateway: Gateway) -> None:
    status, headers, body = await http(gateway.port, "HEAD", "/healthz")
    assert (status, headers["content-length"], body if isinstance(body, str) else "") == (200, "15", "")


@pytest.mark.parametrize(
    "raw",
    [b"", b"nonsense", b"[]", b'{"kind":"club"}', b"\xff\xfe", b'{"kind":"group","x":' + b"[" * 10_000, b"{" * 60_000],
)
async def test_a_body_that_is_not_of_the_documented_form_is_a_bad_request(gateway: Gateway, raw: bytes) -> None:
    status, _, body = await gateway.rest("POST", "/v1/conversations", raw)
    assert (status, body["error"]["code"]) == (400, "bad_request")


async def test_a_body_above_the_limit_is_413(gateway: Gateway) -> None:
    status, _, body = await gateway.rest("POST", "/v1/conversations", b" " * (HTTP_BODY_BYTES_MAX + 1))
    assert (status, body["error"]["code"]) == (413, "too_large")


async def test_a_body_in_chunks_is_measured_as_it_comes(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = f"POST /v1/conversations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.token()}\r\n"
    writer.write(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(5):
        writer.write(b"4000\r\n" + b" " * 0x4000 + b"\r\n")
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413 ")


async def test_every_answer_carries_the_security_headers(gateway: Gateway) -> None:
    for path in ("/", "/docs", "/healthz", "/nowhere", "/v1/inbox"):
        _, headers, _ = await http(gateway.port, "GET", path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
        assert "server" not in headers


async def test_a_store_in_trouble_is_503_and_our_mistake_500(gateway: Gateway) -> None:
    gateway.log.error = Unavailable()
    status, _, body = await gateway.rest("GET", "/v1/conversations/c1/messages")
    assert (status, body["error"]["code"], body["error"]["temporary"]) == (503, "unavailable", True)
    gateway.log.error = ValueError("canary")
    status, _, body = await gateway.rest("GET", "/v1/conversations/c1/messages")
    assert (status, body["error"]["code"]) == (500, "internal") and "canary" not in json.dumps(body)


async def test_requests_on_one_connection_are_answered_in_turn(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
    for _ in range(3):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert await reader.readexactly(15) == b'{"status":"ok"}'


async def test_a_listed_origin_may_call_from_its_pages() -> None:
    settings = Settings(auth=Auth(secret=SECRET), allowed_origins=("https://app.example.com",))
    async with opened(settings) as gateway:
        status, headers, _ = await http(
            gateway.port, "OPTIONS", "/v1/inbox", None, {"Origin": "https://app.example.com"}
        )
        assert (status, headers["access-control-allow-origin"]) == (204, "https://app.example.com")
        assert "access-control-allow-credentials" not in headers
        assert "x-ratelimit-reset" in headers["access-control-expose-headers"]
        _, headers, _ = await http(gateway.port, "OPTIONS", "/v1/inbox", None, {"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in headers


async def test_a_star_allows_pages_of_every_origin() -> None:
    evil = {"Origin": "https://evil.example"}
    async with opened(Settings(auth=Auth(secret=SECRET), allowed_origins=("*",))) as gateway:
        _, headers, _ = await http(gateway.port, "OPTIONS", "/v1/inbox", None, evil)
        assert headers["access-control-allow-origin"] == "https://evil.example"
        assert "access-control-allow-origin" not in (await http(gateway.port, "OPTIONS", "/v1/inbox"))[1]
        (await Wire.open(gateway.port, **evil)).drop()


@pytest.mark.parametrize(
    "raw", [b"before_seq=-1", b"after_seq=9223372036854775808", b"around_seq=1.5", b"before_seq=x"]
)
def test_a_forged_place_in_a_query_is_a_bad_cursor(raw: bytes) -> None:
    with pytest.raises(BadCursor):
        decode_query(HistoryQuery, raw)


@pytest.mark.parametrize("raw", [b"limit=0", b"limit=x", b"anchor=last", b"limit=\xff", b"x=1&" * 30, b"limit=%ff"])
def test_a_bad_query_is_a_bad_request(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        decode_query(HistoryQuery, raw)


def test_a_parameter_without_a_value_counts_as_absent() -> None:
    assert decode_query(InboxQuery, b"limit=20&cursor=") == InboxQuery(20, None)
    assert decode_query(InboxQuery, b"cursor=abc&other=1") == InboxQuery(20, "abc")
    assert decode_query(None, b"x=1") is None


def test_the_scheme_of_a_credential_is_not_case_sensitive() -> None:
    assert bearer_of(b"bearer abc") == bearer_of(b"Bearer abc") == "abc"
    assert bearer_of(b"abc") is None


async def test_a_route_without_a_body_names_the_field_that_it_does_not_know(gateway: Gateway) -> None:
    headers, path = {"X-Api-Key": await gateway.api_key()}, "/v1/users/bob/revoke"
    status, _, answer = await http(gateway.port, "POST", path, {"at": 5}, headers)
    assert (status, answer["error"]["code"]) == (400, "bad_request") and "`at`" in answer["error"]["message"]
    assert (await http(gateway.port, "POST", path, None, headers))[0] == 200
    assert (await http(gateway.port, "POST", path, {}, headers))[0] == 200
