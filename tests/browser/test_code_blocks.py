"""Code blocks of the pages that need a browser: pasted into a console or saved as a file, twice, as a reader does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.support.browser.people import plain_page
from tests.support.code_blocks import URL_ON_PAGES, blocks_of
from tests.support.nodes.node_process import NodeProcess
from tests.support.paths import ROOT


@pytest.fixture
def own_pages(tmp_path: Path, page_node: NodeProcess) -> Iterator[str]:
    """The HTML files of the quick start, served as the page says: from another port of this machine."""
    for block in blocks_of(ROOT / "docs" / "use" / "quickstart.md", "html"):
        assert block.file is not None
        text = block.text.replace(URL_ON_PAGES, f"http://127.0.0.1:{page_node.port}")
        (tmp_path / block.file).write_text(text)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


async def test_the_module_of_the_readme_is_there_in_the_console_twice(browser: Browser, page_node: NodeProcess) -> None:
    (block,) = blocks_of(ROOT / "README.md", "js")
    home = f"http://127.0.0.1:{page_node.port}"
    page = await plain_page(browser)
    await page.goto(home)
    pasted = f"async () => {{ {block.text.replace(URL_ON_PAGES, home)} return typeof TidingsClient; }}"
    for _ in range(2):
        assert await page.evaluate(pasted) == "function"
    await page.close()


class Backend(SimpleHTTPRequestHandler):
    """Backend: the reader's own site, whose session knows who is there."""

    token = ""

    def do_POST(self) -> None:
        body = json.dumps({"token": self.token}).encode()
        self.send_response(200 if self.path == "/token" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


async def test_the_module_of_the_token_guide_connects_with_the_token_of_its_backend_twice(
    browser: Browser, tmp_path: Path, page_node: NodeProcess
) -> None:
    (block,) = (one for one in blocks_of(ROOT / "docs" / "use" / "tokens.md", "js") if one.file == "page.mjs")
    (tmp_path / "page.js").write_text(block.text.replace(URL_ON_PAGES, f"http://127.0.0.1:{page_node.port}"))
    use = "import { client } from './page.js'; await client.connect(); document.title = client.userId;"
    (tmp_path / "index.html").write_text(f'<script type="module">{use}</script>')
    Backend.token = page_node.token("guide-alice")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Backend, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for _ in range(2):
        page = await plain_page(browser)
        await page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        await expect(page).to_have_title("guide-alice")
        await page.close()
    server.shutdown()


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def test_two_people_talk_in_the_page_of_the_quick_start_twice(
    browser: Browser, own_pages: str, page_node: NodeProcess
) -> None:
    for run in ("first", "second"):
        alice, bob = await plain_page(browser), await plain_page(browser)
        await alice.goto(f"{own_pages}/hello.html?with=quick-bob#token={page_node.token('quick-alice')}")
        await bob.goto(f"{own_pages}/hello.html?with=quick-alice#token={page_node.token('quick-bob')}")
        await write(alice, f"the {run} run")
        await expect(bob.get_by_text(f"quick-alice: the {run} run")).to_be_visible()
        await write(bob, f"the {run} answer")
        await expect(alice.get_by_text(f"quick-bob: the {run} answer")).to_be_visible()
        await expect(bob.get_by_text(f"the {run} answer read")).to_be_visible()
        await alice.close()
        await bob.close()
