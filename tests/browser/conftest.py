"""Debian's Chromium, started once, and one node as a process of its own for all tests of the page.

Every test has people of its own, so that nobody meets the messages of another test. Where Chromium is missing the
tests are skipped and say so.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.support.browser.people import PATIENCE_MS, People
from tests.support.browser.pictures import KEPT
from tests.support.browser.seeding import Seeds
from tests.support.nodes.node_process import NodeProcess

WHOLE = os.environ.get("CHROMIUM") or shutil.which("chromium")
SHELL = os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or WHOLE  # costs half as much
LIMITS = {f"TIDINGS_LIMITS_{name}": "off" for name in ("SEND", "READ", "TYPING", "CONNECT", "HTTP")}

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One event loop for all of them: the browser belongs to the loop that started it."""
    for item in items:
        if "/browser/" in str(item.path) and isinstance(item, pytest.Function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@asynccontextmanager
async def launched(path: str | None) -> AsyncIterator[Browser]:
    if path is None:
        pytest.skip("chromium is missing: apt install chromium, or name it in CHROMIUM")
    async with async_playwright() as playwright:
        microphone = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]  # it beeps
        flags = ["--no-sandbox", "--disable-gpu", *microphone]
        chromium = await playwright.chromium.launch(
            executable_path=path, headless=True, args=flags, timeout=PATIENCE_MS
        )
        yield chromium
        await chromium.close()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with launched(SHELL) as chromium:
        yield chromium


@pytest_asyncio.fixture(loop_scope="session")
async def whole_browser() -> AsyncIterator[Browser]:
    """Chromium with all its parts: the shell has neither push messages nor a question about notifications."""
    async with launched(WHOLE) as chromium:
        yield chromium


@pytest.fixture(scope="session")
def page_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that nobody stops; `--dev` opens its sign-in."""
    with NodeProcess(tmp_path_factory.mktemp("page") / "data", LIMITS, ["--dev"]) as node:
        yield node.start()


@pytest_asyncio.fixture(loop_scope="session")
async def people(browser: Browser, page_node: NodeProcess) -> AsyncIterator[People]:
    people = People(browser, page_node)
    yield people
    assert await people.close() == []


@pytest_asyncio.fixture(loop_scope="session")
async def seeds(page_node: NodeProcess) -> AsyncIterator[Seeds]:
    async with Seeds(page_node) as seeds:
        yield seeds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of drawn pictures. `PICTURES=1` keeps them in docs/pictures."""
    return KEPT if os.environ.get("PICTURES") else tmp_path


@pytest.fixture
def named() -> Callable[[str], str]:
    """A user id that no other test has: `named("ann")`."""
    number = next(_numbers)
    return lambda name: f"{name}{number}"
