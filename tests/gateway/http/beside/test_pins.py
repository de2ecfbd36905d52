"""The routes of pins: what they answer and refuse."""

from __future__ import annotations

import httpx2

from tidings import testing


async def test_a_message_is_pinned_listed_and_unpinned() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        me = {"Authorization": f"Bearer {server.token('alice')}"}
        made = await http.post("/v1/conversations", headers=me, json={"kind": "direct", "members": ["bob"]})
        name = made.json()["conversation_id"]
        path = f"/v1/conversations/{name}"
        await http.post(f"{path}/messages", headers=me, json={"text": "hi", "message_id": "m1"})
        for _ in range(2):
            pinned = await http.put(f"{path}/messages/1/pin", headers=me)
            assert (pinned.status_code, pinned.json()) == (200, {"conversation_id": name, "seq": 1, "pinned": True})
        (one,) = (await http.get(f"{path}/pins", headers=me)).json()["pins"]
        assert (one["pinned_by"], one["message"]["text"], one["message"]["pinned"]) == ("alice", "hi", True)
        entries = (await http.get(f"{path}/messages", headers=me)).json()["messages"]
        assert [(entry["kind"], entry.get("pinned")) for entry in entries] == [("pin", True), ("message", True)]
        gone = await http.delete(f"{path}/messages/1/pin", headers=me)
        assert (gone.status_code, gone.json()) == (200, {"conversation_id": name, "seq": 1})
        assert (await http.get(f"{path}/pins", headers=me)).json() == {"pins": []}
        assert (await http.put(f"{path}/messages/9/pin", headers=me)).status_code == 404
        assert (await http.get("/v1/conversations/c9/pins", headers=me)).status_code == 404
