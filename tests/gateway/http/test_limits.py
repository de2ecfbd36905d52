"""Overrides over REST: an admin key changes them, any server key sees them, a user gets nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateway.raw_websocket import http
from tests.support.gateway.served import Gateway
from tidings.bounds import LIMIT_COUNT_MAX, LIMIT_WINDOW_S_MAX

EVERY = "/v1/rate_limits/overrides"
ONE = EVERY + "/user/alice/send"


async def ask(gateway: Gateway, method: str, path: str, body: Any = None, role: str = "admin") -> tuple[int, Any]:
    headers = {"X-Api-Key": await gateway.api_key(role)}
    status, _, answer = await http(gateway.port, method, path, body, headers)
    return status, answer


async def test_an_override_is_set_seen_and_taken_back(gateway: Gateway) -> None:
    status, body = await ask(gateway, "PUT", ONE, {"limit": 5, "window_s": 10})
    assert status == 200 and body.pop("changed_at") > 0
    assert body == {"scope": "user", "name": "alice", "class": "send", "limit": 5, "window_s": 10}
    for role in ("admin", "readonly"):
        status, seen = await ask(gateway, "GET", EVERY, role=role)
        assert status == 200 and [one["name"] for one in seen["overrides"]] == ["alice"]
    assert (await ask(gateway, "DELETE", ONE))[0] == 204
    assert (await ask(gateway, "DELETE", ONE))[0] == 404
    assert await ask(gateway, "GET", EVERY) == (200, {"overrides": []})


async def test_no_limit_and_nothing_passes(gateway: Gateway) -> None:
    assert (await ask(gateway, "PUT", ONE, {"limit": None}))[1]["limit"] is None
    assert (await ask(gateway, "PUT", ONE, {"limit": 0}))[1]["limit"] == 0


async def test_every_change_is_audited_with_the_keys_name(gateway: Gateway) -> None:
    await ask(gateway, "PUT", ONE, {"limit": 5, "window_s": 10})
    await ask(gateway, "PUT", EVERY + "/role/bot/read", {"limit": None})
    await ask(gateway, "DELETE", ONE)
    assert gateway.kept.actions == [
        ("limits.set", "admin", "alice", "user alice send 5/10s"),
        ("limits.set", "admin", "-", "role bot read off"),
        ("limits.clear", "admin", "alice", "user alice send"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"limit": -1},
        {"limit": "5"},
        {"limit": 1.5},
        {"limit": LIMIT_COUNT_MAX + 1},
        {"limit": 5, "window_s": 0},
        {"limit": 5, "window_s": LIMIT_WINDOW_S_MAX + 1},
    ],
)
async def test_what_is_no_limit_is_refused(gateway: Gateway, body: Any) -> None:
    assert (await ask(gateway, "PUT", ONE, body))[0] == 400
    assert gateway.overrides.rows == {} and gateway.kept.actions == []


@pytest.mark.parametrize("place", ["group/alice/send", "user/a%20b/send", "user/alice/sends", "key/backend/send"])
async def test_what_is_no_place_for_an_override_is_refused(gateway: Gateway, place: str) -> None:
    assert (await ask(gateway, "PUT", f"{EVERY}/{place}", {"limit": 5}))[0] == 400
    assert (await ask(gateway, "DELETE", f"{EVERY}/{place}"))[0] == 400
    assert gateway.overrides.rows == {}


async def test_a_user_and_a_readonly_key_change_nothing(gateway: Gateway) -> None:
    await ask(gateway, "PUT", ONE, {"limit": 5})
    for method, path, body in (("PUT", ONE, {"limit": 9}), ("DELETE", ONE, None)):
        assert (await gateway.rest(method, path, body))[0] == 403
        assert (await gateway.rest(method, path, body, X_User_Id="root"))[0] == 403
        assert (await ask(gateway, method, path, body, role="readonly"))[0] == 403
        assert (await http(gateway.port, method, path, body))[0] == 401
    assert (await gateway.rest("GET", EVERY))[0] == 403
    assert [one.count for one in gateway.overrides.rows.values()] == [5]
    assert len(gateway.kept.actions) == 1


async def test_a_key_that_acts_for_nobody_sees_its_own_budgets(gateway: Gateway) -> None:
    assert (await ask(gateway, "GET", "/v1/rate_limits"))[0] == 200
