"""What of the JavaScript client only a browser has: its WebSocket and fetch under the server's policy, localStorage,
IndexedDB, Web Locks between tabs, and `online`/`offline`. Debian's Chromium, a real node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support.nodes.node_process import NodeProcess

CHROMIUM = Path("/usr/bin/chromium")
WAIT_S = 90

START = """async ([user, storage, isDead]) => {
  const sdk = await import('/sdk/tidings.js');
  const getToken = async () => {
    const answer = await fetch('/v1/dev/token', { method: 'POST', body: JSON.stringify({ user_id: user }) });
    return (await answer.json()).token;
  };
  class Dead { close() {} send() {} }
  window.client = new sdk.TidingsClient({ getToken, storage: sdk[storage](), ...(isDead ? { WebSocket: Dead } : {}) });
  const hello = window.client.connect();
  if (!isDead) await hello;
}"""
SEND = """async ([id, texts]) => {
  const conversation = window.client.conversation(id);
  return Promise.all(texts.map(async (text) => (await conversation.send(text)).seq));
}"""
SEND_LATER = """([id, texts]) => { for (const text of texts) window.client.conversation(id).send(text); }"""
DIRECT = "async (user) => (await window.client.direct(user)).id"
LOG = """async (id) => {
  const page = await window.client.conversation(id).history({ limit: 50 });
  return page.messages.map((entry) => entry.text).reverse();
}"""
UNSENT = "() => window.client.unsentCount"
KEPT = """async (storage) => {
  const sdk = await import('/sdk/tidings.js');
  return (await sdk[storage]().all()).length;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.fail(f"Chromium is not installed at {CHROMIUM}: the client cannot be tested in a browser")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=str(CHROMIUM),
            headless=True,
            args=["--no-sandbox", "--disable-gpu"],
            timeout=1000 * WAIT_S,
        )
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("js") / "data", words=["--dev"]) as node:
        yield node.start()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context()
    yield made
    made.close()


def tab(context: BrowserContext, node: NodeProcess, user: str, storage: str, *, is_dead: bool = False) -> Page:
    """A page of the server with a client in it; a dead one never gets a connection."""
    page = context.new_page()
    page.set_default_timeout(1000 * WAIT_S)
    page.goto(f"http://127.0.0.1:{node.port}/docs")
    page.evaluate(START, [user, storage, is_dead])
    return page


def wait_for(page: Page, expression: str) -> None:
    """Until it is true; the expression may be asynchronous."""
    deadline_s = time.monotonic() + WAIT_S
    while not page.evaluate(expression):
        assert time.monotonic() < deadline_s, f"not in time: {expression}"
        time.sleep(0.02)


def test_a_message_goes_from_one_browser_to_another(browser: Browser, served: NodeProcess) -> None:
    left, right = browser.new_context(), browser.new_context()
    ann, bob = tab(left, served, "ann", "memoryStorage"), tab(right, served, "bob", "memoryStorage")
    bob.evaluate("() => { window.heard = []; window.client.on('message', (one) => heard.push(one.message.text)); }")
    conversation = ann.evaluate(DIRECT, "bob")
    assert ann.evaluate(SEND, [conversation, ["one", "<b>two</b>"]]) == [1, 2]
    wait_for(bob, "() => window.heard.length === 2")
    assert bob.evaluate("() => window.heard") == ["one", "<b>two</b>"]
    left.close()
    right.close()


@pytest.mark.parametrize("storage", ["localStorageOutbox", "indexedDbOutbox"])
def test_what_was_written_offline_survives_a_reload_and_is_sent_once(
    context: BrowserContext, served: NodeProcess, storage: str
) -> None:
    user = f"cem-{storage}"
    page = tab(context, served, user, storage)
    conversation = page.evaluate(DIRECT, "bob")
    page.evaluate("() => window.client.close()")
    page.evaluate(START, [user, storage, True])  # its connection never opens
    wait_for(page, "() => window.client.userId")
    page.evaluate(SEND_LATER, [conversation, ["a", "b", "c"]])
    wait_for(page, f"async () => (await ({KEPT})('{storage}')) === 3")
    page.reload()
    page.evaluate(START, [user, storage, False])
    wait_for(page, f"async () => window.client.unsentCount === 0 && (await ({KEPT})('{storage}')) === 0")
    assert page.evaluate(LOG, conversation) == ["a", "b", "c"]


def test_tabs_do_not_send_each_others_messages_until_one_is_closed(
    context: BrowserContext, served: NodeProcess
) -> None:
    storage = "localStorageOutbox"
    dead = tab(context, served, "dia", storage, is_dead=True)
    alive = tab(context, served, "dia", storage)
    conversation = alive.evaluate(DIRECT, "bob")
    wait_for(dead, "() => window.client.userId")
    dead.evaluate(SEND_LATER, [conversation, ["a", "b"]])
    wait_for(dead, f"async () => (await ({KEPT})('{storage}')) === 2")
    alive.evaluate("() => window.client._outbox.adopt()")  # what it does every few seconds
    assert alive.evaluate(UNSENT) == 0
    assert alive.evaluate(SEND, [conversation, ["mine"]]) == [1]
    dead.close()
    wait_for(alive, f"async () => (await ({KEPT})('{storage}')) === 0 && window.client.unsentCount === 0")
    assert alive.evaluate(LOG, conversation) == ["mine", "a", "b"]


def test_a_network_that_goes_and_comes_back_is_noticed(context: BrowserContext, served: NodeProcess) -> None:
    page = tab(context, served, "eve", "memoryStorage")
    conversation = page.evaluate(DIRECT, "bob")
    context.set_offline(True)
    page.evaluate("() => window.client._link?.cut('offline')")  # Chromium leaves open sockets open when offline
    wait_for(page, "() => window.client.state === 'connecting'")
    page.evaluate(SEND_LATER, [conversation, ["a", "b"]])
    context.set_offline(False)
    wait_for(page, "() => window.client.state === 'connected' && window.client.unsentCount === 0")
    assert page.evaluate(LOG, conversation) == ["a", "b"]
