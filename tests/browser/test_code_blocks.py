"""Code blocks of the pages that need a browser: pasted into a console or saved as a file, twice, as a reader does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.support.code_blocks import URL_ON_PAGES, blocks_of
from tests.support.nodes.node_process import NodeProcess
from tests.support.paths import ROOT

WAIT_MS = 60_000


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
    page = await browser.new_page()
    await page.goto(home)
    pasted = f"async () => {{ {block.text.replace(URL_ON_PAGES, home)} return typeof TidingsClient; }}"
    for _ in range(2):
        assert await page.evaluate(pasted) == "function"
    await page.close()


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def test_two_people_talk_in_the_page_of_the_quick_start_twice(
    browser: Browser, own_pages: str, page_node: NodeProcess
) -> None:
    for run in ("first", "second"):
        alice, bob = await browser.new_page(), await browser.new_page()
        await alice.goto(f"{own_pages}/hello.html?with=quick-bob#token={page_node.token('quick-alice')}")
        await bob.goto(f"{own_pages}/hello.html?with=quick-alice#token={page_node.token('quick-bob')}")
        await write(alice, f"the {run} run")
        await expect(bob.get_by_text(f"quick-alice: the {run} run")).to_be_visible(timeout=WAIT_MS)
        await write(bob, f"the {run} answer")
        await expect(alice.get_by_text(f"quick-bob: the {run} answer")).to_be_visible(timeout=WAIT_MS)
        await expect(bob.get_by_text(f"the {run} answer read")).to_be_visible(timeout=WAIT_MS)
        await alice.close()
        await bob.close()
