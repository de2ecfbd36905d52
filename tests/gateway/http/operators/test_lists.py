"""The lists of the admin page over REST: for operators alone, and without texts."""

from __future__ import annotations

from tests.support.gateway.raw_websocket import http
from tidings import testing


async def test_lists_and_traffic_are_for_operators_and_have_no_texts() -> None:
    async with testing.server() as node:
        alice = await node.client("alice")
        await alice.send(await alice.direct("bob"), "secret words")
        key, token = {"X-Api-Key": node.api_key}, {"Authorization": f"Bearer {node.token('alice')}"}
        for path in ("users", "conversations", "traffic"):
            assert (await http(node.port, "GET", f"/v1/admin/{path}", None, token))[0] == 403
            status, _, body = await http(node.port, "GET", f"/v1/admin/{path}", None, key)
            assert status == 200 and "secret words" not in str(body)
        users = (await http(node.port, "GET", "/v1/admin/users?query=ALI", None, key))[2]
        assert users == {"users": [{"user_id": "alice", "name": None, "is_online": True}], "next_cursor": None}
        listed = (await http(node.port, "GET", "/v1/admin/conversations", None, key))[2]["conversations"]
        assert [(one["kind"], one["last_seq"]) for one in listed] == [("direct", 1)]
        refused = await http(node.port, "GET", "/v1/admin/users?cursor=nonsense", None, key)
        assert (refused[0], refused[2]["error"]["code"]) == (400, "bad_cursor")
