"""The routes of joining, invites and bans, with a whole node."""

from __future__ import annotations

import httpx2

from tidings import testing


async def test_rules_invites_and_bans_over_rest() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        alice, bob = ({"Authorization": f"Bearer {server.token(name)}"} for name in ("alice", "bob"))
        made = await http.post("/v1/conversations", headers=alice, json={"kind": "group", "name": "Team"})
        one = f"/v1/conversations/{made.json()['conversation_id']}"
        changed = await http.patch(one, headers=alice, json={"visibility": "open", "slow_s": 30, "data": {"x": 1}})
        assert changed.json()["rules"] == {"visibility": "open", "slow_s": 30}
        assert (changed.json()["data"], changed.json()["role"]) == ({"x": 1}, "owner")
        listed = (await http.get("/v1/directory?query=tea", headers=bob)).json()
        assert [row["name"] for row in listed["conversations"]] == ["Team"]
        first = (await http.get("/v1/directory?limit=1", headers=bob)).json()
        rest = (await http.get(f"/v1/directory?cursor={first['next_cursor']}", headers=bob)).json()
        assert (first["conversations"], rest["conversations"]) == (listed["conversations"], [])
        wrong = await http.get("/v1/directory?cursor=zz", headers=bob)
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "bad_cursor")
        assert (await http.post(one + "/join", headers=bob)).status_code == 200
        assert (await http.put(one + "/bans/bob", headers=alice, json={})).status_code == 204
        assert (await http.post(one + "/join", headers=bob)).status_code == 403
        assert (await http.delete(one + "/bans/bob", headers=alice)).status_code == 204
        invite = (await http.post(one + "/invites", headers=alice, json={"uses": 1})).json()
        assert invite["invite"] in invite["url"]
        assert (await http.post(f"/v1/invites/{invite['invite']}", headers=bob)).status_code == 200
        carol = {"Authorization": f"Bearer {server.token('carol')}"}
        gone = await http.post(f"/v1/invites/{invite['invite']}", headers=carol)
        assert (gone.status_code, gone.json()["error"]["code"]) == (410, "gone")
        (left,) = (await http.get(one + "/invites", headers=alice)).json()["invites"]
        assert left["uses_left"] == 0
        assert (await http.delete(f"{one}/invites/{left['invite_id']}", headers=alice)).status_code == 204
        assert (await http.patch(one, headers=alice, json={"slow_s": 0})).json()["rules"] == {"visibility": "open"}
        assert (await http.patch(one, headers=alice, json={"slow_s": None})).json()["rules"] == {"visibility": "open"}
        sent = {"text": "hi"}
        assert (await http.patch(one, headers=alice, json={"post": "admins"})).status_code == 200
        assert (await http.post(one + "/messages", headers=bob, json=sent)).status_code == 403
