from __future__ import annotations

import pytest
from msgspec import UNSET

from tests.gateway.conftest import Gateway
from tidings.bounds import MEMBERS_MAX


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
        {"kind": "group", "members": ["bob"], "name": "Crew", "avatar_url": None, "history": None},
    )


@pytest.mark.parametrize(
    "bad", [{"members": ["b"]}, {"kind": "group", "members": ["{b}"]}, {"kind": "group", "name": 5}, {"kind": "club"}]
)
async def test_what_is_not_a_conversation_is_a_bad_request(gateway: Gateway, bad: object) -> None:
    assert (await gateway.rest("POST", "/v1/conversations", bad))[0] == 400


async def test_more_members_than_allowed_are_too_large(gateway: Gateway) -> None:
    members = [f"u{n}" for n in range(MEMBERS_MAX + 1)]
    status, _, body = await gateway.rest("POST", "/v1/conversations", {"kind": "group", "members": members})
    assert (status, body["error"]["code"]) == (413, "too_large")


async def test_a_conversation_is_seen_renamed_and_deleted(gateway: Gateway) -> None:
    assert (await gateway.rest("GET", "/v1/conversations/c1"))[2]["kind"] == "group"
    assert (await gateway.rest("PATCH", "/v1/conversations/c1", {"name": None}))[0] == 200
    assert gateway.directory.calls[-1] == ("rename", "c1", {"name": None, "avatar_url": UNSET})
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


async def test_profiles_of_members_are_asked_for_by_id(gateway: Gateway) -> None:
    path = "/v1/conversations/c1/profiles"
    status, _, body = await gateway.rest("GET", path + "?user_ids=bob,carol")
    assert (status, [one["name"] for one in body["profiles"]]) == (200, ["Bob", "Carol"])
    assert body["profiles"][0] == {"user_id": "bob", "name": "Bob", "avatar_url": None}
    assert (await gateway.rest("GET", path))[0] == 200
    assert (await gateway.rest("GET", path + "?user_ids=bob,,carol"))[0] == 400
    assert (await gateway.rest("GET", "/v1/conversations/foreign/profiles?user_ids=bob"))[0] == 404
