from __future__ import annotations

from tests.support.gateway.served import Gateway


async def test_blocks_are_set_listed_and_ended(gateway: Gateway) -> None:
    for other_id in ("carol", "bob"):
        assert (await gateway.rest("PUT", f"/v1/blocks/{other_id}"))[0] == 204
    listed = {"blocks": [{"user_id": "bob", "since": 5}, {"user_id": "carol", "since": 5}]}
    assert (await gateway.rest("GET", "/v1/blocks"))[2] == listed
    assert (await gateway.rest("GET", "/v1/blocks", user_id="bob"))[2] == {"blocks": []}
    assert (await gateway.rest("DELETE", "/v1/blocks/bob"))[0] == 204
    assert [one["user_id"] for one in (await gateway.rest("GET", "/v1/blocks"))[2]["blocks"]] == ["carol"]
    assert (await gateway.rest("PUT", "/v1/blocks/a%20b"))[0] == 400


async def test_preferences_have_defaults_and_are_replaced_as_a_whole(gateway: Gateway) -> None:
    anybody = {"who_may_write": "anybody", "who_may_add": "anybody", "badge": "loud"}
    assert (await gateway.rest("GET", "/v1/preferences"))[2] == anybody
    assert (await gateway.rest("PUT", "/v1/preferences", {"who_may_write": "shared"}))[0] == 200
    assert (await gateway.rest("GET", "/v1/preferences"))[2] == anybody | {"who_may_write": "shared"}
    assert (await gateway.rest("PUT", "/v1/preferences", {"who_may_add": "friends"}))[0] == 400
    nights = {"quiet": [{"days": [1, 7], "from": "22:00", "to": "07:00"}], "quiet_lets": "mentions"}
    assert (await gateway.rest("PUT", "/v1/preferences", nights))[0] == 200
    assert (await gateway.rest("GET", "/v1/preferences"))[2] == anybody | nights


async def test_people_are_found_and_each_question_is_paid_for(gateway: Gateway) -> None:
    status, _, body = await gateway.rest("GET", "/v1/users?query=b%C3%B6b&limit=5")
    assert status == 200
    assert body == {"users": [{"user_id": "bob", "name": "Bob", "avatar_url": None, "online": True}]}
    assert gateway.people.asked == [("alice", "böb", 5)] and ("search", "alice") in gateway.limiter.asked
    assert (await gateway.rest("GET", "/v1/users"))[0] == 200
    assert gateway.people.asked[1] == ("alice", "", 20)
    assert (await gateway.rest("GET", "/v1/users?limit=0"))[0] == 400
    assert (await gateway.rest("GET", "/v1/users?limit=51"))[0] == 200
    assert gateway.people.asked[-1] == ("alice", "", 50)
    gateway.limiter.refused.add("search")
    assert (await gateway.rest("GET", "/v1/users?query=b"))[0] == 429


async def test_a_connect_is_a_sign_in(gateway: Gateway) -> None:
    await gateway.wire("carol")
    assert gateway.people.signed_in_ids == ["carol"]
