"""The routes of saved messages: what they answer and refuse."""

from __future__ import annotations

import httpx2

from tidings import testing


async def test_a_message_is_saved_listed_and_removed() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        me = {"Authorization": f"Bearer {server.token('alice')}"}
        made = await http.post("/v1/conversations", headers=me, json={"kind": "direct", "members": ["bob"]})
        name = made.json()["conversation_id"]
        await http.post(f"/v1/conversations/{name}/messages", headers=me, json={"text": "hi", "message_id": "m1"})
        assert (await http.put(f"/v1/saved/{name}/1", headers=me)).status_code == 204
        body = (await http.get("/v1/saved", headers=me)).json()
        (one,) = body["saved"]
        assert (one["conversation_id"], one["message"]["text"], body["next_cursor"]) == (name, "hi", None)
        assert one["saved_at"] >= one["message"]["sent_at"]
        for _ in range(2):
            assert (await http.delete(f"/v1/saved/{name}/1", headers=me)).status_code == 204
        assert (await http.get("/v1/saved", headers=me)).json() == {"saved": [], "next_cursor": None}
        assert (await http.put(f"/v1/saved/{name}/2", headers=me)).status_code == 404
        assert (await http.get("/v1/saved?cursor=x", headers=me)).status_code == 400
