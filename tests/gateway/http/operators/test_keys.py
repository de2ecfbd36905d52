"""API keys over REST: any key reads the list, and only an admin's key makes and revokes keys."""

from __future__ import annotations

from typing import Any

from tests.support.gateway.raw_websocket import http
from tidings import testing
from tidings.gateway.tokens import user_of_bot

KEYS = "/v1/admin/keys"


async def ask(node: testing.TestServer, key: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    status, _, answer = await http(node.port, method, path, body, {"X-Api-Key": key})
    return status, answer


async def test_a_key_is_shown_once_works_and_is_revoked() -> None:
    async with testing.server() as node:
        status, made = await ask(node, node.api_key, "POST", KEYS, {"name": "wall"})
        assert (status, made["role"]) == (201, "readonly")
        listed = (await ask(node, node.api_key, "GET", KEYS))[1]["keys"]
        assert {one["name"] for one in listed} == {"testing", "wall"}
        assert made["key"] not in str(listed)
        assert (await ask(node, made["key"], "GET", KEYS))[0] == 200
        assert (await ask(node, node.api_key, "DELETE", f"{KEYS}/{made['key_id']}"))[0] == 204
        assert (await ask(node, node.api_key, "DELETE", f"{KEYS}/{made['key_id']}"))[0] == 404


async def test_a_key_that_may_only_look_makes_no_key() -> None:
    async with testing.server() as node:
        keys = {}
        for role in ("readonly", "moderator"):
            keys[role] = (await ask(node, node.api_key, "POST", KEYS, {"name": role, "role": role}))[1]["key"]
        for key in keys.values():
            assert (await ask(node, key, "POST", KEYS, {"name": "mine", "role": "admin"}))[0] == 403
        assert (await ask(node, keys["moderator"], "GET", KEYS))[0] == 403
        for name in ("", "two words", "new\nline"):
            assert (await ask(node, node.api_key, "POST", KEYS, {"name": name}))[0] == 400


async def test_a_key_of_a_bot_is_bound_to_its_user() -> None:
    async with testing.server() as node:
        body = {"name": "helper", "role": "bot", "user_id": "helper"}
        status, made = await ask(node, node.api_key, "POST", KEYS, body)
        assert (status, made["role"], user_of_bot(made["key"])) == (201, "bot", "helper")
        assert (await ask(node, made["key"], "GET", "/v1/inbox"))[0] == 200
        assert (await ask(node, made["key"], "GET", KEYS))[0] == 403
        for wrong in ({"role": "bot"}, {"role": "admin", "user_id": "helper"}):
            assert (await ask(node, node.api_key, "POST", KEYS, {"name": "wrong", **wrong}))[0] == 400
