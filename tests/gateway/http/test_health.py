from __future__ import annotations

import asyncio
import re
from typing import Any, cast

import pytest

from tests.support.clocks import StillClock
from tests.support.gateway.raw_websocket import Wire, http
from tests.support.gateway.served import SECRET, Gateway, opened
from tidings.bounds import READY_KNOWN_S
from tidings.config.settings import Auth, Metrics, Settings
from tidings.gateway.http.health import PageRoutes
from tidings.gateway.http.web import read_files


async def test_health_never_asks_a_store(gateway: Gateway) -> None:
    gateway.stores = {"tables": "down", "keyspace": "down"}
    assert (await http(gateway.port, "GET", "/healthz"))[0] == 200


@pytest.mark.parametrize(
    ("status", "stores"),
    [
        (200, {"tables": "up", "keyspace": "up"}),
        (200, {"tables": "up", "keyspace": "down"}),
        (503, {"tables": "down", "keyspace": "up"}),
    ],
)
async def test_readiness_names_each_store_and_fails_for_the_tables_only(
    gateway: Gateway, status: int, stores: dict[str, str]
) -> None:
    gateway.stores = stores
    answer = await http(gateway.port, "GET", "/readyz")
    assert answer[0] == status and stores.items() <= answer[2].items()


async def no_metrics() -> tuple[bytes, str]:
    return b"", ""


async def test_readiness_asks_the_stores_at_most_once_a_second() -> None:
    clock, asked = StillClock(), 0

    async def readiness() -> dict[str, str]:
        nonlocal asked
        asked += 1
        return {"tables": "up", "keyspace": "up"}

    pages = PageRoutes(readiness, lambda: False, no_metrics, clock)
    request = cast(Any, None)  # it is not looked at
    for _ in range(3):
        assert (await pages.readyz(request)).status == 200
    assert asked == 1
    clock.at_s += READY_KNOWN_S + 0.1
    await asyncio.gather(*(pages.readyz(request) for _ in range(3)))
    assert asked == 2


async def test_metrics_are_plain_text(gateway: Gateway) -> None:
    status, headers, body = await http(gateway.port, "GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain") and "tidings_connections 1" in body


async def test_metrics_have_a_port_of_their_own_where_the_settings_name_one() -> None:
    settings = Settings(auth=Auth(secret=SECRET), metrics=Metrics(port=0))
    async with opened(settings) as gateway:
        port = await gateway.server.start_metrics("127.0.0.1", 0)
        assert (await http(gateway.port, "GET", "/metrics"))[0] == 404
        status, _, body = await http(port, "GET", "/metrics")
        assert status == 200 and "tidings_connections 1" in body
        for path in ("/", "/healthz", "/v1/inbox", "/admin"):
            assert (await http(port, "GET", path))[0] == 404
        _, head = await Wire.handshake(port)
        assert head.startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("path", ["/%6detrics", "/%61dmin", "/v1/%61dmin/settings", "/v1%2Fadmin/settings"])
async def test_a_path_that_hides_behind_an_encoding_does_not_exist(gateway: Gateway, path: str) -> None:
    headers = {"X-Api-Key": await gateway.api_key()}
    assert (await http(gateway.port, "GET", path, headers=headers))[0] == 404


async def test_the_first_page_leads_to_everything(gateway: Gateway) -> None:
    status, headers, body = await http(gateway.port, "GET", "/")
    assert status == 200 and headers["content-type"].startswith("text/html")
    links = set(re.findall(r'(?:href|src)="([^"]+)"', body))
    assert {"/docs", "/openapi.json", "/asyncapi.json", "/healthz", "/readyz", "/metrics"} <= links
    for link in links:
        assert (await http(gateway.port, "GET", link))[0] == 200, link


async def test_the_docs_page_and_what_it_loads(gateway: Gateway) -> None:
    _, headers, body = await http(gateway.port, "GET", "/docs")
    assert headers["content-type"].startswith("text/html")
    assert re.findall(r"<script(?![^>]*\bsrc=)", body) == []
    for link in re.findall(r'(?:href|src)="(/[^"]+)"', body):
        assert (await http(gateway.port, "GET", link))[0] == 200, link


def test_pages_have_no_inline_script_no_inline_style_and_nothing_from_elsewhere() -> None:
    pages = {name: file.content.decode() for name, file in read_files().items() if name.endswith(".html")}
    assert {"index.html", "admin/index.html"} <= pages.keys()
    for text in pages.values():
        assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
        assert re.findall(r"<style|\bstyle=|\bon\w+=|https?://", text) == []


@pytest.mark.parametrize("name", ["nothing.js", "..%2F__init__.py", "__init__.py", "%00", ""])
async def test_a_name_that_is_not_a_page_file_does_not_exist(gateway: Gateway, name: str) -> None:
    assert (await http(gateway.port, "GET", f"/assets/{name}"))[0] == 404
