"""Profile pictures over REST: one's own, shown to everybody, and kept when the name changes."""

from __future__ import annotations

import io

import httpx2
import pytest

from tidings import testing


async def test_a_person_uploads_a_picture_that_others_see() -> None:
    out = io.BytesIO()
    pytest.importorskip("PIL.Image").new("RGB", (300, 300), "red").save(out, "PNG")
    photo = out.getvalue()
    async with testing.server() as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        bob, eve = ({"Authorization": f"Bearer {server.token(name)}"} for name in ("bob", "eve"))
        assert (await http.put("/v1/users/bob/picture", headers=eve, content=photo)).status_code == 404
        answer = await http.put("/v1/users/bob/picture", headers=bob, content=photo)
        assert answer.status_code == 200, answer.text
        path = answer.json()["avatar_url"]
        shown = await http.get(path)
        assert (shown.status_code, shown.headers["content-type"]) == (200, "image/webp")
        assert shown.headers["content-security-policy"].startswith("sandbox") and "immutable" in str(shown.headers)
        named = await http.put("/v1/users/bob", headers=bob, json={"name": "Bob", "avatar_url": path})
        assert (named.status_code, named.json()["avatar_url"]) == (200, path)
        wrong = await http.put("/v1/users/bob", headers=bob, json={"name": "Bob", "avatar_url": "/v1/inbox"})
        assert wrong.status_code == 400
        assert (await http.put("/v1/users/bob/picture", headers=bob, content=b"no picture")).status_code == 400
        assert (await http.delete("/v1/users/bob/picture", headers=bob)).status_code == 204
        assert (await http.get(path)).status_code == 404
        assert (await http.get("/v1/users/bob", headers=bob)).json()["avatar_url"] is None
