from __future__ import annotations

import pytest
from msgspec import UNSET

from tests.support.gateway.raw_websocket import http
from tests.support.gateway.served import Gateway
from tidings.bounds import MEMBERS_BULK_MAX, MEMBERS_NAMED_MAX


async def test_a_new_conversation_is_201_and_a_known_one_200(gateway: Gateway) -> None:
    asked = {"kind": "group", "members": ["bob"], "name": "Crew"}
    status, _, body = await gateway.rest("POST", "/v1/conversations", asked)
    assert status == 201 and body["conversation_id"] == "c1"
    assert body["members"] == [{"user_id": "alice", "role": "owner", "joined_seq": 0, "joined_at": 0}]
    gateway.directory.is_new = False
    assert (await gateway.rest("POST", "/v1/conversations", asked))[0] == 200
    assert gateway.directory.calls[0] == (
        "create",
        "alice",
        {
            "kind": "group",
            "members": ["bob"],
            "name": "Crew",
            "avatar_url": None,
            "history": None,
            "client_id": None,
            "is_server": False,
        },
    )


@pytest.mark.parametrize(
    "bad", [{"members": ["b"]}, {"kind": "group", "members": ["{b}"]}, {"kind": "group", "name": 5}, {"kind": "club"}]
)
async def test_what_is_not_a_conversation_is_a_bad_request(gateway: Gateway, bad: object) -> None:
    assert (await gateway.rest("POST", "/v1/conversations", bad))[0] == 400


async def test_more_members_than_one_request_may_name_are_a_bad_request(gateway: Gateway) -> None:
    members = [f"u{n}" for n in range(MEMBERS_NAMED_MAX + 1)]
    status, _, body = await gateway.rest("POST", "/v1/conversations", {"kind": "group", "members": members})
    assert (status, body["error"]["code"]) == (400, "bad_request") and "members" in body["error"]["message"]


async def test_a_name_that_is_too_long_is_a_bad_request(gateway: Gateway) -> None:
    body = {"kind": "group", "members": ["bob"], "name": "n" * 101}
    status, _, answer = await gateway.rest("POST", "/v1/conversations", body)
    assert (status, answer["error"]["code"]) == (400, "bad_request") and "name" in answer["error"]["message"]


async def test_a_conversation_is_seen_renamed_and_deleted(gateway: Gateway) -> None:
    assert (await gateway.rest("GET", "/v1/conversations/c1"))[2]["kind"] == "group"
    assert (await gateway.rest("PATCH", "/v1/conversations/c1", {"name": None}))[0] == 200
    assert gateway.directory.calls[-1] == (
        "rename",
        "c1",
        {"name": None, "avatar_url": UNSET, "rules": {}, "companion": None},
    )
    assert (await gateway.rest("DELETE", "/v1/conversations/c1"))[0] == 204
    assert gateway.directory.calls[-1] == ("delete", "c1")


async def test_what_is_not_ones_own_does_not_exist(gateway: Gateway) -> None:
    answers = [await gateway.rest("GET", f"/v1/conversations/{name}") for name in ("foreign", "d-missing")]
    assert [answer[0] for answer in answers] == [404, 404]
    assert answers[0][2] == answers[1][2]


async def test_members_come_change_and_go(gateway: Gateway) -> None:
    base = "/v1/conversations/c1/members"
    assert (await gateway.rest("POST", base, {"user_ids": ["bob", "carol"]}))[0] == 200
    assert (await gateway.rest("PATCH", base + "/bob", {"role": "admin"}))[0] == 200
    assert (await gateway.rest("DELETE", base + "/bob"))[0] == 204
    assert gateway.directory.calls == [
        ("add", "c1", ["bob", "carol"]),
        ("role", "c1", "bob", "admin"),
        ("remove", "c1", "bob"),
    ]
    assert (await gateway.rest("POST", base, {"user_ids": []}))[0] == 400
    assert (await gateway.rest("PATCH", base + "/bob", {"role": "king"}))[0] == 400


async def test_a_long_member_list_is_read_in_pages(gateway: Gateway) -> None:
    base = "/v1/conversations/c1/members"
    status, _, first = await gateway.rest("GET", base)
    assert status == 200 and len(first["members"]) == 100
    assert first["members"][0] == {"user_id": "u000", "role": "member", "joined_seq": 0, "joined_at": 0}
    rest = (await gateway.rest("GET", f"{base}?limit=1000&cursor={first['next_cursor']}"))[2]
    assert [one["user_id"] for one in rest["members"]] == [f"u{n:03}" for n in range(100, 150)]
    assert rest["next_cursor"] is None
    assert (await gateway.rest("GET", base + "?cursor=%7Bx%7D"))[2]["error"]["code"] == "bad_cursor"
    assert (await gateway.rest("GET", "/v1/conversations/foreign/members"))[0] == 404


async def test_a_server_key_adds_ten_thousand_members_in_one_call(gateway: Gateway) -> None:
    headers = {"X-Api-Key": await gateway.api_key(), "X-User-Id": "alice"}
    user_ids = [f"user-with-a-long-id-{n:05}" for n in range(MEMBERS_BULK_MAX)]
    path = "/v1/conversations/c1/members"
    status, _, _ = await http(gateway.port, "POST", path, {"user_ids": user_ids}, headers)
    assert status == 200 and gateway.directory.calls == [("add", "c1", user_ids)]
    assert (await http(gateway.port, "POST", path, {"user_ids": [*user_ids, "x"]}, headers))[0] == 400


async def test_an_invitation_is_accepted_by_its_own_route(gateway: Gateway) -> None:
    assert (await gateway.rest("PUT", "/v1/conversations/c1/accept"))[0] == 200
    assert gateway.directory.calls == [("accept", "c1", "alice")]


async def test_a_server_key_needs_nobodys_consent(gateway: Gateway) -> None:
    headers = {"X-Api-Key": await gateway.api_key(), "X-User-Id": "alice"}
    await http(gateway.port, "POST", "/v1/conversations", {"kind": "group", "members": ["bob"]}, headers)
    assert gateway.directory.calls[0][2]["is_server"] is True


async def test_profiles_of_members_are_asked_for_by_id(gateway: Gateway) -> None:
    path = "/v1/conversations/c1/profiles"
    status, _, body = await gateway.rest("GET", path + "?user_ids=bob,carol")
    assert (status, [one["name"] for one in body["profiles"]]) == (200, ["Bob", "Carol"])
    assert body["profiles"][0] == {"user_id": "bob", "name": "Bob", "avatar_url": None}
    assert (await gateway.rest("GET", path))[0] == 200
    assert (await gateway.rest("GET", path + "?user_ids=bob,,carol"))[0] == 400
    assert (await gateway.rest("GET", "/v1/conversations/foreign/profiles?user_ids=bob"))[0] == 404


# --- the budget of class create ----------------------------------------------------------------------------


def create_costs(gateway: Gateway) -> list[int]:
    pairs = zip(gateway.limiter.asked, gateway.limiter.costs, strict=True)
    return [cost for (class_name, _), cost in pairs if class_name == "create"]


async def test_a_new_conversation_costs_one_for_each_50_members_named(gateway: Gateway) -> None:
    for count in (1, 50, 51, 900):
        members = [f"u{n}" for n in range(count)]
        assert (await gateway.rest("POST", "/v1/conversations", {"kind": "group", "members": members}))[0] == 201
    assert create_costs(gateway) == [1, 1, 2, 18]


async def test_changes_of_members_cost_one_for_each_10_and_a_name_costs_one(gateway: Gateway) -> None:
    base = "/v1/conversations/c1"
    for count in (1, 10, 11, 45):
        await gateway.rest("POST", base + "/members", {"user_ids": [f"u{n}" for n in range(count)]})
    await gateway.rest("PATCH", base + "/members/bob", {"role": "admin"})
    await gateway.rest("DELETE", base + "/members/bob")
    await gateway.rest("PATCH", base, {"name": "Crew"})
    await gateway.rest("PUT", "/v1/users/alice", {"name": "Alice"})
    assert create_costs(gateway) == [1, 1, 2, 5, 1, 1, 1, 1]


async def test_a_conversation_beyond_the_budget_is_not_made(gateway: Gateway) -> None:
    gateway.limiter.refused.add("create")
    asked = {"kind": "group", "members": ["bob"]}
    status, headers, body = await gateway.rest("POST", "/v1/conversations", asked)
    assert (status, body["error"]["code"], headers["x-ratelimit-limit"]) == (429, "rate_limited", "7")
    assert (await gateway.rest("PATCH", "/v1/conversations/c1", {"name": "Crew"}))[0] == 429
    assert gateway.directory.calls == []


async def test_leaving_is_free_and_so_is_everything_that_the_teams_server_does(gateway: Gateway) -> None:
    gateway.limiter.refused.add("create")
    assert (await gateway.rest("DELETE", "/v1/conversations/c1/members/alice"))[0] == 204
    named = {"X-Api-Key": await gateway.api_key(), "X-User-Id": "alice"}
    asked = {"kind": "group", "members": ["bob"]}
    assert (await http(gateway.port, "POST", "/v1/conversations", asked, named))[0] == 201
    assert create_costs(gateway) == []
