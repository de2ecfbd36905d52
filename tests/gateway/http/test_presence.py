"""GET /v1/presence: what is asked, what is answered, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateway.raw_websocket import http
from tests.support.gateway.served import Gateway
from tidings.bounds import ID_CHARS_MAX


async def get(gateway: Gateway, query: str) -> tuple[int, Any]:
    status, _, body = await gateway.rest("GET", f"/v1/presence?{query}")
    return status, body


async def test_presence_is_answered_in_the_order_asked(gateway: Gateway) -> None:
    status, body = await get(gateway, "conversation_id=c1&user_ids=carol,bob")
    assert (status, gateway.live_status.asked) == (200, [("alice", "c1", ["carol", "bob"])])
    assert body == {
        "presence": [
            {"user_id": "carol", "online": False, "last_seen": 1794770399146},
            {"user_id": "bob", "online": True, "last_seen": None},
        ]
    }


@pytest.mark.parametrize("query", ["conversation_id=c1", "conversation_id=c1&user_ids="])
async def test_without_names_everyone_is_meant(gateway: Gateway, query: str) -> None:
    status, body = await get(gateway, query)
    assert (status, gateway.live_status.asked) == (200, [("alice", "c1", [])])
    assert [one["user_id"] for one in body["presence"]] == ["bob", "carol"]


async def test_a_conversation_of_others_does_not_exist(gateway: Gateway) -> None:
    status, body = await get(gateway, "conversation_id=c2&user_ids=bob")
    assert (status, body["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "bad_request"),
        ("user_ids=bob", "bad_request"),
        ("conversation_id=a:b", "bad_request"),
        ("conversation_id=c1&user_ids=bob,,carol", "bad_request"),
        ("conversation_id=c1&user_ids=b%7Bob%7D", "bad_request"),
        (f"conversation_id=c1&user_ids={'a' * (ID_CHARS_MAX + 1)}", "bad_request"),
        (f"conversation_id=c1&user_ids={'a,' * 20_000}a", "too_large"),
    ],
)
async def test_a_query_that_is_not_of_the_documented_form_is_refused(gateway: Gateway, query: str, code: str) -> None:
    _, body = await get(gateway, query)
    assert (body["error"]["code"], gateway.live_status.asked) == (code, [])


async def test_the_route_is_documented(gateway: Gateway) -> None:
    operation = (await http(gateway.port, "GET", "/openapi.json"))[2]["paths"]["/v1/presence"]["get"]
    assert [parameter["name"] for parameter in operation["parameters"]] == ["conversation_id", "user_ids"]
    assert {"200", "400", "401", "404", "413", "429", "503"} <= set(operation["responses"])
