"""The routes of saved messages: what they answer and refuse."""

from __future__ import annotations

from typing import Any

import httpx2

from tidings import testing


async def test_a_message_is_the_same_in_every_list_as_on_a_page_of_history() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        me, bob = ({"Authorization": f"Bearer {server.token(user_id)}"} for user_id in ("alice", "bob"))
        made = await http.post("/v1/conversations", headers=me, json={"kind": "group", "members": ["bob"], "name": "g"})
        name = made.json()["conversation_id"]
        path = f"/v1/conversations/{name}"
        head = (await http.post(f"{path}/messages", headers=bob, json={"text": "root"})).json()["seq"]
        reply = await http.post(f"{path}/messages", headers=me, json={"text": "reply", "thread_seq": head})
        seqs = [head, reply.json()["seq"]]
        for seq in seqs:
            assert (await http.put(f"{path}/messages/{seq}/reactions/👍", headers=bob)).status_code == 200
            assert (await http.put(f"{path}/messages/{seq}/pin", headers=bob)).status_code == 200
            assert (await http.put(f"/v1/saved/{name}/{seq}", headers=me)).status_code == 204
        assert (await http.put("/v1/blocks/bob", headers=me)).is_success
        page = (await http.get(f"{path}/messages", headers=me)).json()["messages"]
        root, answer = (next(one for one in page if one["seq"] == seq) for seq in seqs)
        assert {"reactions", "reactions_seq", "pinned", "thread", "hidden"} <= root.keys()
        saved = (await http.get("/v1/saved", headers=me)).json()["saved"]
        pins = (await http.get(f"{path}/pins", headers=me)).json()["pins"]
        assert [one["message"] for one in saved] == [one["message"] for one in pins] == [answer, root]
        assert [one["root"] for one in (await http.get("/v1/threads", headers=me)).json()["threads"]] == [root]
        replies = await http.get(f"{path}/messages?thread_seq={head}", headers=me)
        assert replies.json()["messages"] == [answer]
        assert (await http.delete("/v1/blocks/bob", headers=me)).is_success  # a message of somebody blocked is no hit
        for word, seq in (("root", head), ("reply", seqs[1])):
            one = (await http.get(f"{path}/messages/{seq}", headers=me)).json()
            hits: list[dict[str, Any]] = []
            while not hits:  # the index follows within seconds
                hits = (await http.get("/v1/search", params={"q": word}, headers=me)).json()["hits"]
            assert [hit["message"] for hit in hits] == [one]


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
