from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway.raw_websocket import http
from tests.support.gateway.served import SECRET, Gateway, opened
from tidings.config.settings import Auth, Settings
from tidings.errors import Unavailable
from tidings.gateway.http.pictures import Pictures
from tidings.gateway.http.routes import Request
from tidings.gateway.http.web import CONTENT_TYPES, WebRoutes, read_files

CLIENTS = Path(__file__).resolve().parents[3] / "clients" / "js" / "src"


async def test_the_page_is_served_with_a_policy_that_allows_its_own_scripts_alone(gateway: Gateway) -> None:
    status, headers, _ = await http(gateway.port, "GET", "/")
    policy = headers["content-security-policy"]
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"


async def test_the_page_fetches_pictures_from_listed_hosts_alone(gateway: Gateway) -> None:
    _, headers, _ = await http(gateway.port, "GET", "/")
    assert "img-src 'self' data: blob: ;" in headers["content-security-policy"]
    settings = Settings(auth=Auth(secret=SECRET), picture_hosts=("example.com", "*.pictures.test"))
    async with opened(settings) as listed:
        _, headers, _ = await http(listed.port, "GET", "/")
        wanted = "img-src 'self' data: blob: https://example.com https://*.pictures.test;"
        assert wanted in headers["content-security-policy"]


async def test_the_page_may_exchange_files_with_the_bucket() -> None:
    asked: list[int] = []

    async def origin() -> str:
        asked.append(1)
        if len(asked) == 1:
            raise Unavailable("no keys yet")
        return "https://bucket.example"

    routes = WebRoutes(Pictures(()), None, origin)
    nobody: Any = None
    request = Request("GET", (), nobody, None, None, None, ())
    first, second, third = [dict((await routes.index(request)).headers) for _ in range(3)]
    assert b"bucket" not in first[b"content-security-policy"]
    policy = second[b"content-security-policy"]
    assert third[b"content-security-policy"] == policy and len(asked) == 2
    for part in (b"connect-src 'self' https://bucket.example;", b"script-src 'self';"):
        assert part in policy
    assert b"img-src 'self' data: blob:  https://bucket.example;" in policy


async def test_the_client_is_served_as_it_is_in_its_package(gateway: Gateway) -> None:
    status, headers, body = await http(gateway.port, "GET", "/sdk/tidings.js")
    assert (status, headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert body == (CLIENTS / "tidings.js").read_text("utf-8")
    for file in CLIENTS.iterdir():  # its relative imports stand beside it
        assert (await http(gateway.port, "GET", f"/sdk/{file.name}"))[2] == file.read_text("utf-8")


async def test_what_a_browser_has_already_is_not_sent_again(gateway: Gateway) -> None:
    _, headers, _ = await http(gateway.port, "GET", "/sdk/tidings.js")
    assert headers["cache-control"] == "no-cache"
    for known in (headers["etag"], f'W/{headers["etag"]}, "another"'):
        status, again, body = await http(gateway.port, "GET", "/sdk/tidings.js", headers={"If-None-Match": known})
        assert (status, again["etag"], body) == (304, headers["etag"], "")
    other = await http(gateway.port, "GET", "/sdk/tidings.js", headers={"If-None-Match": '"another"'})
    assert other[0] == 200


async def test_files_of_the_page_are_compressed_and_kept_for_ever(gateway: Gateway) -> None:
    _, headers, page = await http(gateway.port, "GET", "/")
    assert headers["cache-control"] == "no-cache", "an upgrade shows at once"
    for path in re.findall(r'(?:href|src)="(/assets/[^"]+\.(?:js|css))"', page):
        _, plain, body = await http(gateway.port, "GET", path)
        assert plain["cache-control"] == "public, max-age=31536000, immutable" and "content-encoding" not in plain
        status, packed, _ = await http(gateway.port, "HEAD", path, headers={"Accept-Encoding": "br, gzip"})
        assert (status, packed["content-encoding"], packed["vary"]) == (200, "gzip", "accept-encoding")
        assert int(packed["content-length"]) < len(body) / 2


async def test_the_worker_stands_at_the_root_so_that_it_may_keep_the_page(gateway: Gateway) -> None:
    status, headers, body = await http(gateway.port, "GET", "/worker.js")
    assert status == 200 and headers["content-type"].startswith("text/javascript") and "caches" in body


async def test_every_file_of_the_page_is_served_under_its_path(gateway: Gateway) -> None:
    found = read_files()
    assert {"index.html", "sdk/tidings.js"} <= set(found)
    for name in found:
        assert name.count("/") <= 2, "deeper folders have no route"
        status, headers, _ = await http(gateway.port, "HEAD", f"/web/{name}")
        assert status == 200 and headers["content-type"].encode() in CONTENT_TYPES.values(), name


@pytest.mark.parametrize(
    "path",
    [
        "/web/../http.py",
        "/web/..%2Fmodel.py",
        "/web/%2e%2e/model.py",
        "/web/sdk/..%2F..%2Fmodel.py",
        "/web//etc/passwd",
        "/web/%2Fetc%2Fpasswd",
        "/web/sdk%2Ftidings.js%00",
        "/sdk/",
        "/sdk/package.json",
        "/sdk/../index.html/..",
        "/web/nothing.js",
        "/web/a/b/c.js",
    ],
)
async def test_no_path_leads_out_of_the_table(gateway: Gateway, path: str) -> None:
    assert (await http(gateway.port, "GET", path))[0] == 404
