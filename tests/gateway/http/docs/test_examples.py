"""Examples of the description are what the routes take: a node finds no example malformed."""

from __future__ import annotations

import json
import shlex
from typing import Any

import msgspec

from tests.protocol.test_protocol_page import route_table
from tests.support.gateway.raw_websocket import http
from tidings import testing
from tidings.gateway.http.docs.examples import curl_of, example_of
from tidings.gateway.http.docs.openapi import openapi_of

NOT_SENT = {  # signed URLs, which nobody can make up; a provider that must be set up; a minute of checks
    "POST /v1/devices",
    "PUT /v1/uploads/{ticket}",
    "GET /v1/downloads/{ticket}/{name}",
    "GET /v1/admin/doctor",
}


def operations(api: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method.upper(), facts) for path, methods in api["paths"].items() for method, facts in methods.items()
    ]


def test_every_operation_has_examples_of_its_form() -> None:
    routes = route_table()
    api = openapi_of(routes)
    for route in routes:
        facts = api["paths"][route.path][route.method.lower()]
        if route.body is not None:
            msgspec.convert(facts["requestBody"]["content"]["application/json"]["example"], route.body)
        if route.answer is not None:
            content = facts["responses"][str(route.statuses[0])]["content"]["application/json"]
            msgspec.convert(content["example"], route.answer)
        assert all("example" in one for one in facts.get("parameters", ()) if one["in"] == "path")


async def test_a_node_finds_no_example_malformed() -> None:
    refused = []
    async with testing.server() as node:
        api = (await http(node.port, "GET", "/openapi.json"))[2]
        who = {"Authorization": f"Bearer {node.token('alice')}", "X-Api-Key": node.api_key}
        for path, method, facts in operations(api):
            words = shlex.split(curl_of(path, method, facts))
            (url,) = [word for word in words if word.startswith("$URL")]
            sent = json.loads(words[words.index("-d") + 1]) if "-d" in words else None
            headers = {name: who[name] for name in who if any(word.startswith(f"{name}:") for word in words)}
            if f"{method} {path}" not in NOT_SENT:
                status, _, answer = await http(node.port, method, url.removeprefix("$URL"), sent, headers)
                if status in (400, 401, 405, 500):
                    refused.append((method, path, sent, answer))
    assert refused == []


def test_a_command_says_who_asks_and_quotes_what_it_sends() -> None:
    body = {"content": {"application/json": {"example": {"text": "it's"}}}}
    facts = {
        "parameters": [{"name": "key", "in": "path", "example": "👍"}, {"name": "q", "in": "query", "example": "a b"}],
        "security": [{"api_key": []}],
        "requestBody": body,
    }
    command = curl_of("/v1/x/{key}", "PUT", facts)
    assert shlex.split(command) == [
        "curl", "-X", "PUT", "$URL/v1/x/%F0%9F%91%8D?q=a+b", "-H", "X-Api-Key: $API_KEY", "-d", '{"text": "it\'s"}',
    ]  # fmt: skip


def test_a_value_comes_from_its_name_where_it_fits() -> None:
    schema = {
        "properties": {
            "user_id": {"type": "string"},
            "seen_at": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "members": {"type": "array", "items": {"type": "integer"}},
            "kind": {"enum": ["group", "direct"]},
        },
        "required": ["user_id", "seen_at", "members", "kind"],
    }
    made = example_of(schema, {})
    assert made == {"user_id": "bob", "seen_at": 1794770399146, "members": [1], "kind": "group"}
