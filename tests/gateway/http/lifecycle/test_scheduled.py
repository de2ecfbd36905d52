"""The routes of scheduled messages: what they answer and refuse."""

from __future__ import annotations

import httpx2

from tidings import testing


async def test_a_message_is_put_replaced_listed_and_removed() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        me = {"Authorization": f"Bearer {server.token('alice')}"}
        made = await http.post("/v1/conversations", headers=me, json={"kind": "direct", "members": ["bob"]})
        body = {"conversation_id": made.json()["conversation_id"], "text": "hi", "send_at": 4_000_000_000_000}
        too_late = await http.put("/v1/scheduled/m1", headers=me, json=body)
        assert too_late.status_code == 400 and "send_at" in too_late.text
        body["send_at"] = server.node.core.clock.now_ms() + 60_000
        first = await http.put("/v1/scheduled/m1", headers=me, json=body)
        assert (first.status_code, first.json()) == (201, {"message_id": "m1", **body})
        nulls = dict.fromkeys(("data", "silent", "reply_to", "files", "ttl_s", "mentions", "mention", "also_here"))
        again = await http.put("/v1/scheduled/m1", headers=me, json={**nulls, **body, "text": "hello"})
        assert (again.status_code, again.json()["text"]) == (200, "hello")
        listed = await http.get("/v1/scheduled", headers=me)
        assert listed.json() == {"scheduled": [again.json()]}
        assert (await http.delete("/v1/scheduled/m1", headers=me)).status_code == 204
        assert (await http.delete("/v1/scheduled/m1", headers=me)).status_code == 404


async def test_an_unknown_field_and_an_empty_text_are_refused() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        me = {"Authorization": f"Bearer {server.token('alice')}"}
        wrong = await http.put("/v1/scheduled/m1", headers=me, json={"conversation_id": "c", "send_at": 1, "txt": "hi"})
        assert wrong.status_code == 400 and "txt" in wrong.text
        empty = await http.put("/v1/scheduled/m1", headers=me, json={"conversation_id": "c", "send_at": 1})
        assert empty.status_code == 400
        stranger = {"conversation_id": "c", "send_at": 1, "text": "hi"}
        assert (await http.put("/v1/scheduled/m1", headers=me, json=stranger)).status_code == 404
