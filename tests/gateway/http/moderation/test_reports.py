"""The queue of reports: who may look, and that each look is audited."""

from __future__ import annotations

import httpx2

from tidings import testing
from tidings.gateway.auth import hash_api_key
from tidings.stores.tables.values import ApiKey


async def test_a_moderator_key_reads_and_decides_reports_and_nothing_else() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        core = server.node.core
        await core.tables.accounts.put_api_key(
            ApiKey(key_hash=hash_api_key("tk_mod"), name="mod", role="moderator", created_ms=1)
        )
        moderator = {"X-Api-Key": "tk_mod"}
        alice = {"Authorization": f"Bearer {server.token('alice')}"}
        made = await http.post("/v1/conversations", headers=alice, json={"kind": "group", "members": ["bob"]})
        one = f"/v1/conversations/{made.json()['conversation_id']}"
        await http.post(one + "/messages", headers=alice, json={"text": "rude"})
        bob = {"Authorization": f"Bearer {server.token('bob')}"}
        report = await http.post(one + "/messages/1/report", headers=bob, json={"reason": "rude"})
        assert report.status_code == 201
        (waiting,) = (await http.get("/v1/admin/reports", headers=moderator)).json()["reports"]
        assert (waiting["message"]["text"], waiting["by"], waiting["reason"]) == ("rude", "bob", "rude")
        first = (await http.get("/v1/admin/reports?limit=1", headers=moderator)).json()
        rest = await http.get(f"/v1/admin/reports?cursor={first['next_cursor']}", headers=moderator)
        assert (first["reports"], rest.json()["reports"]) == ([waiting], [])
        wrong = await http.get("/v1/admin/reports?cursor=zz", headers=moderator)
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "bad_cursor")
        assert (await http.get("/v1/admin/reports", headers=bob)).status_code == 403
        acting = {**moderator, "X-User-Id": "alice"}
        assert (await http.get(one, headers=acting)).status_code == 403
        assert (await http.get("/v1/admin/overview", headers=moderator)).status_code == 403
        decided = await http.post(
            f"/v1/admin/reports/{waiting['report_id']}", headers=moderator, json={"action": "delete"}
        )
        assert decided.status_code == 204
        assert (await http.get(one + "/messages", headers=bob)).json()["messages"][-1]["deleted"]
        await core.limiting.audit.flush()
        tail = await core.limiting.reader.tail(count=100)
        actions = [entry.event.class_name for entry in tail if entry.event is not None]
        assert {"report.read", "report.delete"} <= set(actions)
