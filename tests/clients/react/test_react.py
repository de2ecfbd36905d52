"""The React hooks, by the example that people begin with and the program of the guide: built, and used in Chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.code_blocks import URL_ON_PAGES, blocks_of
from tests.support.nodes.node_process import NodeProcess
from tests.support.paths import ROOT

CHROMIUM = Path("/usr/bin/chromium")
WAIT_MS = 60_000
# Keeps everybody who was shown as typing: that is over a moment later.
WATCH_TYPISTS = """() => {
  window.typists = [];
  const look = () => window.typists.push(document.querySelector('#typing')?.textContent);
  new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true });
}"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as a person builds it, in a copy of the two packages."""
    if shutil.which("npm") is None:
        pytest.skip("npm is missing: the React example cannot be built")
    folder = tmp_path_factory.mktemp("react")
    left_out = shutil.ignore_patterns("node_modules", "app.js")
    for package in ("js", "react"):
        shutil.copytree(ROOT / "clients" / package, folder / package, ignore=left_out)
    example = folder / "react" / "example"
    for words in (("ci", "--no-audit", "--no-fund"), ("run", "build")):
        ran = subprocess.run(("npm", *words), cwd=example, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr
    return example


@pytest.fixture(scope="module")
def page_url(built: Path) -> Iterator[str]:
    """A page of one's own on another port of this machine, as `npm run dev` would serve it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
    server.shutdown()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("react-node") / "data", words=["--dev"]) as node:
        yield node.start()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"Chromium is missing at {CHROMIUM}")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=str(CHROMIUM), headless=True, args=["--no-sandbox", "--disable-gpu"], timeout=WAIT_MS
        )
        yield launched
        launched.close()


def opened(browser: Browser, page_url: str, node: NodeProcess, user_id: str) -> Page:
    page = browser.new_context().new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{page_url}?server=http://127.0.0.1:{node.port}&token={node.token(user_id)}")
    expect(page.locator("h1")).to_contain_text("connected", timeout=WAIT_MS)
    return page


def test_two_people_write_read_and_type(browser: Browser, page_url: str, node: NodeProcess) -> None:
    expect.set_options(timeout=WAIT_MS)
    group = node.create_group(["ann", "ben"])
    ann, ben = (opened(browser, page_url, node, user_id) for user_id in ("ann", "ben"))
    ann.locator("#inbox button").first.click()
    ann.get_by_label("Message").fill("hello from react")
    ann.get_by_role("button", name="Send").click()
    expect(ann.locator("#messages li")).to_contain_text("ann: hello from react")
    expect(ben.locator("#total")).to_have_text("1")
    expect(ben.locator("#inbox button").first).to_contain_text("(1): hello from react")
    ben.locator("#inbox button").first.click()
    expect(ben.locator("#messages li")).to_contain_text("ann: hello from react")
    ben.get_by_role("button", name="Mark read").click()
    expect(ben.locator("#total")).to_have_text("0")
    expect(ann.locator("#messages li")).to_contain_text("read")
    ann.evaluate(WATCH_TYPISTS)
    ben.get_by_label("Message").press_sequentially("I ty")
    ann.wait_for_function("() => window.typists.includes('ben')")
    assert group


@pytest.fixture(scope="module")
def guide_url(built: Path, page_url: str, node: NodeProcess) -> str:
    """The program of docs/use/react.md, built and served as the example is."""
    (block,) = blocks_of(ROOT / "docs" / "use" / "react.md", "jsx")
    (built / "guide.jsx").write_text(block.text.replace(URL_ON_PAGES, f"http://127.0.0.1:{node.port}"))
    words = json.loads((built / "package.json").read_text("utf-8"))["scripts"]["build"].replace("app.", "guide.")
    ran = subprocess.run(("npm", "exec", "--", *words.split()), cwd=built, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    (built / "guide.html").write_text(
        '<!doctype html><div id="root"></div><script type="module" src="guide.js"></script>'
    )
    return page_url.replace("index.html", "guide.html")


def test_the_program_of_the_guide_runs_as_pasted_twice(browser: Browser, guide_url: str, node: NodeProcess) -> None:
    expect.set_options(timeout=WAIT_MS)
    node.create_group(["gil", "hal"])
    for run in ("first", "second"):
        page = browser.new_context().new_page()
        page.set_default_timeout(WAIT_MS)
        page.route("**/token", lambda route: route.fulfill(json={"token": node.token("gil")}))
        page.goto(guide_url)
        page.get_by_label("Message").fill(f"the {run} run")
        page.keyboard.press("Enter")
        expect(page.get_by_text(f"gil: the {run} run sent")).to_be_visible()
        page.context.close()
