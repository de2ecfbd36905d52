"""The routes of drafts: what they answer and refuse."""

from __future__ import annotations

import httpx2

from tidings import testing


async def test_a_draft_is_put_shown_in_the_inbox_and_removed() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        me = {"Authorization": f"Bearer {server.token('alice')}"}
        made = await http.post("/v1/conversations", headers=me, json={"kind": "direct", "members": ["bob"]})
        name = made.json()["conversation_id"]
        path = f"/v1/drafts/{name}"
        first = await http.put(path, headers=me, json={"text": "hi", "version": 0})
        assert (first.status_code, first.json()) == (200, {"conversation_id": name, "text": "hi", "version": 1})
        (row,) = (await http.get("/v1/inbox", headers=me)).json()["conversations"]
        assert row["draft"] == {"text": "hi", "version": 1}
        refused = await http.put(path, headers=me, json={"text": "other", "version": 0})
        assert (refused.status_code, refused.json()["draft"]) == (409, first.json())
        assert refused.json()["error"]["code"] == "conflict"
        gone = await http.put(path, headers=me, json={"text": "", "version": 1})
        assert gone.json() == {"conversation_id": name, "text": "", "version": 2}
        (row,) = (await http.get("/v1/inbox", headers=me)).json()["conversations"]
        assert "draft" not in row
        assert (await http.put(path, headers=me, json={"text": "x" * 16_385, "version": 2})).status_code == 413
        assert (await http.put(path, headers=me, json={"text": "x"})).status_code == 400
        assert (await http.put("/v1/drafts/c9", headers=me, json={"text": "x", "version": 0})).status_code == 404
