from __future__ import annotations

from urllib.parse import quote

from tests.support.gateway.served import Gateway

MESSAGE = "/v1/conversations/c1/messages/41/reactions"
UP = quote("👍")


async def test_a_reaction_is_set_taken_away_and_listed(gateway: Gateway) -> None:
    status, _, body = await gateway.rest("PUT", f"{MESSAGE}/{UP}")
    state = {"conversation_id": "c1", "seq": 41, "reactions": {"👍": {"count": 1, "mine": True}}, "reactions_seq": 9}
    assert (status, body) == (200, state)
    await gateway.rest("PUT", f"{MESSAGE}/{UP}", user_id="bob")
    listed = {"reactions": [{"key": "👍", "user_ids": ["alice", "bob"]}], "next_cursor": None}
    assert (await gateway.rest("GET", MESSAGE))[2] == listed
    body = (await gateway.rest("DELETE", f"{MESSAGE}/{UP}"))[2]
    assert body["reactions"] == {"👍": {"count": 1, "mine": False}}
    body = (await gateway.rest("DELETE", f"{MESSAGE}/{UP}", user_id="bob"))[2]
    assert "reactions" not in body


async def test_a_key_has_1_to_32_bytes_and_nothing_that_cannot_be_seen(gateway: Gateway) -> None:
    for key in ("x" * 32, "🏳️‍🌈", "a/b", ":wave:"):
        assert (await gateway.rest("PUT", f"{MESSAGE}/{quote(key, safe='')}"))[0] == 200
    for key in ("x" * 33, "👍" * 9, "a b", "\u202eabc", " ", "a\nb"):
        assert (await gateway.rest("PUT", f"{MESSAGE}/{quote(key, safe='')}"))[0] == 400


async def test_reactions_have_a_budget_of_their_own_and_the_teams_server_has_none(gateway: Gateway) -> None:
    key = await gateway.api_key()
    gateway.limiter.refused.add("reaction")
    assert (await gateway.rest("PUT", f"{MESSAGE}/ok"))[0] == 429
    assert (await gateway.rest("PUT", f"{MESSAGE}/ok", X_Api_Key=key, X_User_Id="bob", Authorization=""))[0] == 200
    assert (await gateway.rest("GET", MESSAGE))[0] == 200
