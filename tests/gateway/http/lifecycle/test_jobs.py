"""An erasure over REST: begun by an admin key, done in the background, certified at the end."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import zipfile

import httpx2

from tidings import testing
from tidings.bounds import Limit
from tidings.config.settings import Limits, Settings
from tidings.stores.keyspace.call import plain


async def test_a_person_is_erased_and_the_job_is_the_certificate() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        bob = {"Authorization": f"Bearer {server.token('bob')}"}
        made = await http.post("/v1/conversations", headers=bob, json={"kind": "direct", "members": ["alice"]})
        one = f"/v1/conversations/{made.json()['conversation_id']}"
        await http.post(one + "/messages", headers=bob, json={"text": "words of bob"})
        admin = {"X-Api-Key": server.api_key}
        assert (await http.delete("/v1/users/bob", headers=bob)).status_code == 403
        begun = await http.delete("/v1/users/bob?texts=remove", headers=admin)
        assert begun.status_code == 202
        path = f"/v1/jobs/{begun.json()['job_id']}"
        async with asyncio.timeout(60):
            while (state := (await http.get(path, headers=admin)).json())["state"] == "running":
                await asyncio.sleep(0.05)
        assert (state["messages"], state["user_id"]) == (1, "bob") and state["remains"]
        alice = {"Authorization": f"Bearer {server.token('alice')}"}
        page = (await http.get(one + "/messages", headers=alice)).json()["messages"]
        assert [message["text"] for message in page] == [None, None]
        assert (await http.get("/v1/jobs/nothing", headers=admin)).status_code == 404


async def test_a_person_gets_an_export_of_their_own_and_nobody_else_does() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        bob = {"Authorization": f"Bearer {server.token('bob')}"}
        made = await http.post("/v1/conversations", headers=bob, json={"kind": "direct", "members": ["alice"]})
        one = f"/v1/conversations/{made.json()['conversation_id']}"
        await http.post(one + "/messages", headers=bob, json={"text": "words of bob"})
        answer = await http.get("/v1/users/bob/export", headers=bob)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
        with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
            lines = packed.read("export.jsonl").decode().splitlines()
            assert json.loads(packed.read("manifest.json"))["of"] == "user bob"
        assert [line["text"] for line in map(json.loads, lines) if line["type"] == "message"] == ["words of bob"]
        assert (await http.get("/v1/users/alice/export", headers=bob)).status_code == 404
        assert (await http.get("/v1/users/bob/export", headers={"X-Api-Key": server.api_key})).status_code == 200
        assert (await http.get("/v1/users/bob/export")).status_code == 401


async def test_a_readonly_key_exports_what_the_person_may_read_and_an_admin_key_also_what_they_left() -> None:
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        keys = {"admin": {"X-Api-Key": server.api_key}}
        for role in ("readonly", "moderator"):
            made = await http.post("/v1/admin/keys", headers=keys["admin"], json={"name": role, "role": role})
            keys[role] = {"X-Api-Key": made.json()["key"]}
        bob = {"Authorization": f"Bearer {server.token('bob')}"}
        for name in ("stays", "leaves"):
            made = await http.post(
                "/v1/conversations", headers=bob, json={"kind": "group", "members": [], "name": name}
            )
            one = f"/v1/conversations/{made.json()['conversation_id']}"
            await http.post(one + "/messages", headers=bob, json={"text": name})
        assert (await http.delete(one + "/members/bob", headers=bob)).is_success
        answers = {role: await http.get("/v1/users/bob/export", headers=key) for role, key in keys.items()}
        answers["bob"] = await http.get("/v1/users/bob/export", headers=bob)
        assert answers.pop("moderator").status_code == 403
        assert {role: texts_of(answer) for role, answer in answers.items()} == {
            "admin": ["leaves", "stays"],
            "readonly": ["stays"],
            "bob": ["stays"],
        }


def texts_of(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        lines = map(json.loads, packed.read("export.jsonl").decode().splitlines())
        return sorted(line["text"] for line in lines if line["type"] == "message")


async def test_an_export_that_the_limit_refuses_takes_no_place() -> None:
    settings = Settings(limits=dataclasses.replace(Limits(), http=Limit(8, 600)))
    async with testing.server(settings) as server, httpx2.AsyncClient(base_url=server.url) as http:
        bob, core = {"Authorization": f"Bearer {server.token('bob')}"}, server.node.core
        used = core.scripts.limiter_admit("bob", "http", window_us=600_000_000, limit=8, wanted=8, token="elsewhere")
        await core.keyspace.run([used])  # on another node: this one expects no refusal
        assert (await http.get("/v1/users/bob/export", headers=bob)).status_code == 429
        key = core.keys.rate("bob", "http")
        await core.keyspace.run([plain(key, b"DEL", key)])
        core.limiting.limiter.forget()
        answer = await http.get("/v1/users/bob/export", headers=bob)
        assert answer.status_code == 200, answer.text
