from __future__ import annotations

import json
from typing import Any

from tests.support.gateway.raw_websocket import http
from tests.support.gateway.served import Gateway
from tidings.gateway.http.docs.openapi import openapi_of
from tidings.gateway.http.routes import Reply, Request, Route


async def document(gateway: Gateway) -> dict[str, Any]:
    found: dict[str, Any] = (await http(gateway.port, "GET", "/openapi.json"))[2]
    return found


async def test_every_documented_path_of_the_spine_is_described(gateway: Gateway) -> None:
    paths = (await document(gateway))["paths"]
    one = "/v1/conversations/{conversation_id}"
    expected = {
        "/v1/inbox": {"get"},
        "/v1/inbox/{conversation_id}": {"patch"},
        "/v1/conversations": {"post"},
        one: {"get", "patch", "delete"},
        one + "/members": {"get", "post"},
        one + "/members/{user_id}": {"patch", "delete"},
        one + "/profiles": {"get"},
        one + "/messages": {"get", "post"},
        one + "/messages/{seq}": {"get", "patch", "delete"},
        one + "/messages/{seq}/receipts": {"get"},
        one + "/read": {"post"},
        one + "/unread": {"post"},
        "/v1/users/{user_id}": {"get", "put"},
        "/v1/users/{user_id}/revoke": {"post"},
        "/v1/unread": {"get"},
        "/v1/rate_limits": {"get"},
        "/healthz": {"get"},
        "/readyz": {"get"},
        "/metrics": {"get"},
        "/openapi.json": {"get"},
        "/asyncapi.json": {"get"},
        "/docs": {"get"},
        "/": {"get"},
    }
    assert expected.items() <= {path: set(methods) for path, methods in paths.items()}.items()


async def test_every_reference_leads_to_a_schema(gateway: Gateway) -> None:
    api = await document(gateway)
    names = {part.split('"')[0] for part in json.dumps(api).split("#/components/schemas/")[1:]}
    assert names <= set(api["components"]["schemas"])


async def test_operations_have_names_of_their_own(gateway: Gateway) -> None:
    api = await document(gateway)
    names = [facts["operationId"] for methods in api["paths"].values() for facts in methods.values()]
    assert len(names) == len(set(names))


async def test_each_parameter_of_a_path_is_described(gateway: Gateway) -> None:
    for path, methods in (await document(gateway))["paths"].items():
        wanted = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        for facts in methods.values():
            given = {one["name"] for one in facts.get("parameters", ()) if one["in"] == "path"}
            assert given == wanted


def test_a_route_says_what_it_takes_and_how_it_may_fail() -> None:
    from tidings.protocol.bodies import HistoryQuery, NewMembers, SentBody

    async def nothing(request: Request) -> Reply:
        return Reply(204)

    route = Route(
        "POST", "/v1/x/{seq}", nothing, "X", query=HistoryQuery, body=NewMembers, answer=SentBody, statuses=(201, 200),
        errors=("conflict",),
    )  # fmt: skip
    api = openapi_of([route])
    operation = api["paths"]["/v1/x/{seq}"]["post"]
    assert set(operation["responses"]) == {"200", "201", "400", "401", "409", "413", "429", "500", "503"}
    assert {one["name"] for one in operation["parameters"]} == {
        "seq", "before_seq", "after_seq", "around_seq", "anchor", "limit", "thread_seq", "fields",
    }  # fmt: skip
    assert operation["requestBody"]["required"] is True
    assert api["components"]["schemas"]["NewMembers"]["required"] == ["user_ids"]


async def test_a_page_whose_fields_may_be_named_has_two_forms(gateway: Gateway) -> None:
    api = await document(gateway)
    for path, names in {
        "/v1/inbox": ["InboxBody", "PickedInboxBody"],
        "/v1/conversations/{conversation_id}/messages": ["HistoryBody", "PickedHistoryBody"],
    }.items():
        schema = api["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert [one["$ref"].rpartition("/")[2] for one in schema["anyOf"]] == names
    assert api["components"]["schemas"]["PickedRow"]["required"] == ["conversation_id"]
