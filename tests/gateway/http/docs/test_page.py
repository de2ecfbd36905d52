from __future__ import annotations

import re
from html.parser import HTMLParser

from tests.support.gateway.raw_websocket import http
from tests.support.gateway.served import Gateway
from tidings.gateway.http.docs.asyncapi import asyncapi_of
from tidings.gateway.http.docs.openapi import openapi_of
from tidings.gateway.http.docs.page import docs_page
from tidings.gateway.http.routes import Reply, Request, Route
from tidings.protocol.bodies import HistoryQuery, NewMessage, SentBody


class Outline(HTMLParser):
    """A parser that collects the ids and links of a page, and checks that its tags close."""

    VOID = frozenset(("meta", "link", "br"))

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = dict(attrs)
        self.ids += [str(facts["id"])] if "id" in facts else []
        self.links += [str(facts["href"])] if "href" in facts else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


async def page_of(gateway: Gateway) -> str:
    page: str = (await http(gateway.port, "GET", "/docs"))[2]
    return page


async def test_every_operation_and_every_frame_is_on_the_page(gateway: Gateway) -> None:
    page = await page_of(gateway)
    api = (await http(gateway.port, "GET", "/openapi.json"))[2]
    for path, methods in api["paths"].items():
        for facts in methods.values():
            assert f'id="{facts["operationId"]}"' in page and f"<code>{path}</code>" in page
    frames = (await http(gateway.port, "GET", "/asyncapi.json"))[2]["components"]["messages"].values()
    assert [frame["name"] for frame in frames if f"<code>{frame['name']}</code>" not in page] == []


async def test_every_link_within_the_page_leads_somewhere_and_every_tag_is_closed(gateway: Gateway) -> None:
    outline = Outline(await page_of(gateway))
    assert outline.open == [] and len(outline.ids) == len(set(outline.ids))
    assert [link for link in outline.links if link.startswith("#") and link[1:] not in outline.ids] == []
    assert [link for link in outline.links if not link.startswith(("#", "/"))] == [], "nothing from elsewhere"


async def test_the_page_has_one_script_file_and_nothing_inline(gateway: Gateway) -> None:
    page = await page_of(gateway)
    assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="/assets/docs.js">']
    assert re.findall(r"<style|\bstyle=|\bon\w+=|javascript:|(?:src|href)=\W?https?:", page) == []


async def test_every_operation_has_its_command(gateway: Gateway) -> None:
    page = await page_of(gateway)
    assert page.count('<pre class="curl"') == page.count('<details id="')


def test_text_of_a_route_is_escaped_and_its_parts_are_shown() -> None:
    async def nothing(request: Request) -> Reply:
        return Reply(204)

    route = Route(
        "POST",
        "/v1/conversations/{conversation_id}/messages",
        nothing,
        "Send <b>it</b> & more",
        query=HistoryQuery,
        body=NewMessage,
        answer=SentBody,
    )
    page = docs_page(openapi_of([route]), asyncapi_of()).decode()
    assert "Send &lt;b&gt;it&lt;/b&gt; &amp; more" in page and "<b>it" not in page
    assert 'id="messages">Messages</h2>' in page
    for shown in ("around_seq", "message_id", "duplicate", "first_unread", "a server API key with X-User-Id"):
        assert shown in page, shown
