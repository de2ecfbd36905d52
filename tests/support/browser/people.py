"""A person at a browser: a Chromium context of its own, signed in, with the few things that people do on the page.

It looks at the page as a reader does, by what is shown and by its labels. Whatever the browser complains about on the
way (an error, a violated policy) is kept in `complaints`; the fixture that made the person fails the test over it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from tests.support.browser.slow import slow_down
from tests.support.nodes.node_process import NodeProcess

PATIENCE_MS = 90_000  # a busy machine; what is waited for comes much earlier
EXPECTED = re.compile(r"WebSocket connection|Failed to load resource|net::ERR_")  # the network, which tests do cut
# Nothing fades or slides any more, except what moves for ever (the dots of a typist).
STILL = """() => document.getAnimations().every((one) =>
  one.playState !== 'running' || one.effect.getTiming().iterations === Infinity)"""
LOOK = """() => {
  const { top, height } = document.querySelector('.thread-view').getBoundingClientRect();
  const rows = [...document.querySelectorAll('.message')];
  const row = rows.find((one) => one.getBoundingClientRect().bottom > top + height / 2);
  window.looked = { row, top: row.querySelector('.text').getBoundingClientRect().top };
}"""
MOVED = """() => {
  const { row, top } = window.looked;
  return row.isConnected ? row.querySelector('.text').getBoundingClientRect().top - top : Infinity;
}"""
# A page hears of its new address in a later task.
GO = """(hash) => new Promise((done) => {
  if (location.hash === hash) return done();
  addEventListener('hashchange', () => done(), { once: true });
  location.hash = hash;
})"""
TO_END = """() => {
  const pill = document.querySelector('.pill-now');
  if (!pill.hidden) pill.click();
}"""
OVER_PAGE = "dialog[open], :popover-open"  # dialogs, menus, the emoji
# Looks at every change of the page until the claim holds.
NOTICE = """(argument) => {
  const claim = %s;
  window.isNoticed = false;
  const look = () => { window.isNoticed ||= Boolean(claim(argument)); };
  const facts = { subtree: true, childList: true, attributes: true, characterData: true };
  new MutationObserver((_, watch) => (look(), window.isNoticed && watch.disconnect())).observe(document, facts);
}"""
# A message that one was led to is marked for a moment.
MARKED = """(wanted) =>
  [...document.querySelectorAll('.message.is-shown .text')].some((text) => text.textContent === wanted)"""
TYPING = "(text) => document.querySelector('.typing').textContent.includes(text)"
BUBBLES = "els => els.map(el => el.textContent)"

expect.set_options(timeout=PATIENCE_MS)


class Person:
    def __init__(self, user_id: str, url: str, context: BrowserContext, page: Page) -> None:
        self.user_id = user_id
        self.url = url
        self.context = context
        self.page = page
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("dialog", lambda dialog: self.complaints.append(f"a script ran: {dialog.message}"))

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error" and not EXPECTED.search(text):
            self.complaints.append(f"{self.user_id}: {text}")

    # --- moving about ---

    async def enter(self, token: str) -> Person:
        await self.page.goto(f"{self.url}/#token={token}")
        await self.page.wait_for_selector(".row, .inbox-empty:not([hidden])")
        return self

    async def open(self, conversation_id: str, *, at_end: bool = True) -> Person:
        """By its address; there once its messages, or its beginning, are drawn. It opens at the first unread message;
        `at_end` goes on to the newest."""
        await self.page.evaluate(GO, f"#/c/{quote(conversation_id, safe='')}")
        await self.page.wait_for_selector(".messages > li")
        await self.page.wait_for_selector(".loading", state="hidden")
        if at_end:
            await self.page.evaluate(TO_END)
            await self.page.wait_for_selector(".pill-now", state="hidden")
        return self

    async def leave(self) -> None:
        await self.page.evaluate(GO, "#/")
        await self.page.wait_for_selector(".thread-empty:not([hidden])", state="attached")

    def row(self, name: str) -> Locator:
        return self._with(".row", ".row-name", name)

    def message(self, text: str) -> Locator:
        return self._with(".message", ".text", text)

    def _with(self, whole: str, part: str, text: str) -> Locator:
        """The element whose part says exactly this."""
        return self.page.locator(whole, has=self.page.locator(part, has_text=re.compile(f"^{re.escape(text)}$")))

    async def dismiss(self, what: str = OVER_PAGE) -> None:
        """Press Escape once `what` is open, and wait until it is closed. A dialog opens after its script has come."""
        opened = self.page.locator(what).locator("visible=true")
        await expect(opened).not_to_have_count(0)
        count = await opened.count()
        await self.page.keyboard.press("Escape")
        await expect(opened).to_have_count(count - 1)

    # --- choosing people ---

    async def pick(self, label: str, *ids: str) -> None:
        """Choose people by their ids in the field of this label, known or not."""
        field = self.page.get_by_role("combobox", name=label, exact=True)
        for id_ in ids:
            await field.fill(id_)
            await self.page.locator(".option", has_text=id_).first.click()

    async def write_to(self, user_id: str) -> None:
        """In the dialog of a new conversation: begin a direct one. A person who is known is one choice away."""
        await self.page.get_by_role("combobox", name="With whom").fill(user_id)
        option = self.page.locator(".option", has_text=user_id).first
        await option.wait_for()
        is_unknown = "is-unknown" in (await option.get_attribute("class") or "")
        await option.click()
        if is_unknown:
            await self.page.get_by_role("button", name="Start").click()

    # --- saying and seeing ---

    async def send(self, text: str) -> None:
        field = self.page.get_by_role("textbox", name="Message", exact=True)
        await field.fill(text)
        await field.press("Enter")

    async def sees(self, text: str) -> None:
        await expect(self.message(text)).to_be_visible()

    async def sees_tick(self, text: str, state: str) -> None:
        await expect(self.message(text).locator(f'[data-state="{state}"]')).to_be_visible()

    async def texts(self) -> list[str]:
        """Of the messages that are drawn, in the order of the screen."""
        texts: list[str] = await self.page.eval_on_selector_all(".messages .text", BUBBLES)
        return texts

    async def drawn(self) -> int:
        count: int = await self.page.evaluate("document.querySelectorAll('.messages > li, .inbox li').length")
        return count

    async def frames(self) -> None:
        """Two frames: a scroll is handled in the first and drawn in the second."""
        await self.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    async def look(self) -> None:
        """At the text in the middle of the conversation; `moved_px` tells how far down it went since."""
        await self.page.evaluate(LOOK)

    async def moved_px(self) -> float:
        moved_px: float = await self.page.evaluate(MOVED)
        return moved_px

    @asynccontextmanager
    async def noticing(self, claim: str, argument: object = None) -> AsyncIterator[None]:
        """Wait for what the page shows for a moment, after what is done inside: a look now and then would miss it."""
        await self.page.evaluate(NOTICE % claim, argument)
        yield
        await self.until("() => window.isNoticed")

    async def until(self, claim: str, argument: object = None) -> None:
        """Waits until a JavaScript function returns true on the page. A promise is awaited: it is no answer itself."""
        if not claim.startswith("async"):
            await self.page.wait_for_function(claim, arg=argument)
            return
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while await self.page.evaluate(claim, argument) is not True:
                await self.frames()


async def plain_page(browser: Browser, **shape: Any) -> Page:
    """A page without a person, as patient as those of people."""
    page = await browser.new_page(**shape)
    page.set_default_timeout(PATIENCE_MS)
    await slow_down(page.context)
    return page


class People:
    """Everybody of one test. `await people("ann")` signs one in; `shape` is passed on to the browser context."""

    def __init__(self, browser: Browser, node: NodeProcess) -> None:
        self._browser = browser
        self.node = node
        self.everybody: list[Person] = []

    async def __call__(self, user_id: str, *, port: int | None = None, is_in: bool = True, **shape: Any) -> Person:
        facts = {"viewport": {"width": 1180, "height": 760}, "locale": "en-GB", "timezone_id": "Europe/Vienna", **shape}
        context = await self._browser.new_context(**facts)
        context.set_default_timeout(PATIENCE_MS)
        await slow_down(context)
        person = Person(user_id, f"http://127.0.0.1:{port or self.node.port}", context, await context.new_page())
        self.everybody.append(person)
        return await person.enter(self.node.token(user_id)) if is_in else person

    async def close(self) -> list[str]:
        for person in self.everybody:
            await person.context.close()
        return [complaint for person in self.everybody for complaint in person.complaints]
