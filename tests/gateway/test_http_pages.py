from __future__ import annotations

import re

import pytest

from tests.gateway.conftest import Gateway
from tests.gateway.wire import http
from tidings.gateway.http_pages import read_web_files


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


async def test_metrics_are_plain_text(gateway: Gateway) -> None:
    status, headers, body = await http(gateway.port, "GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain") and "tidings_connections 1" in body


async def test_the_first_page_leads_to_everything(gateway: Gateway) -> None:
    status, headers, body = await http(gateway.port, "GET", "/")
    assert status == 200 and headers["content-type"].startswith("text/html")
    links = set(re.findall(r'(?:href|src)="([^"]+)"', body))
    assert {"/docs", "/openapi.json", "/asyncapi.json", "/healthz", "/readyz", "/metrics"} <= links
    for link in links:
        assert (await http(gateway.port, "GET", link))[0] == 200, link


async def test_the_docs_page_and_what_it_loads(gateway: Gateway) -> None:
    _, headers, body = await http(gateway.port, "GET", "/docs")
    assert headers["content-type"].startswith("text/html") and "<script" not in body
    for link in re.findall(r'(?:href|src)="(/[^"]+)"', body):
        assert (await http(gateway.port, "GET", link))[0] == 200, link


def test_pages_have_no_inline_script_no_inline_style_and_nothing_from_elsewhere() -> None:
    pages = {name: text.decode() for name, text in read_web_files().items() if name.endswith(".html")}
    assert "index.html" in pages
    for text in pages.values():
        assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
        assert re.findall(r"<style|\bstyle=|\bon\w+=|https?://", text) == []


@pytest.mark.parametrize("name", ["nothing.js", "..%2F__init__.py", "__init__.py", "%00", ""])
async def test_a_name_that_is_not_a_page_file_does_not_exist(gateway: Gateway, name: str) -> None:
    assert (await http(gateway.port, "GET", f"/assets/{name}"))[0] == 404
