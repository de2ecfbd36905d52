"""/docs in a browser: whole without any other host, within its policy, and readable for everyone."""

from __future__ import annotations

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect

from tests.support.browser.people import plain_page
from tests.support.nodes.node_process import NodeProcess

# Keeps every text of an operation: a button says "Copied" for a moment.
WATCH = """(operation) => {
  window.texts = [];
  const facts = { subtree: true, childList: true, characterData: true };
  new MutationObserver(() => window.texts.push(operation.textContent)).observe(operation, facts);
}"""
OPEN_SOME = "[...document.querySelectorAll('details')].forEach((one, n) => { one.open = n % 9 == 0 })"


async def test_the_api_page_needs_no_other_host_and_breaks_no_policy(browser: Browser, page_node: NodeProcess) -> None:
    home = f"http://127.0.0.1:{page_node.port}"
    page = await plain_page(browser)
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    await page.goto(f"{home}/docs")
    await expect(page.get_by_role("heading", name="Messages", exact=True)).to_be_visible()
    operation = page.locator("#post_conversations_conversation_id_messages")
    await operation.locator("summary").click()
    await expect(operation.get_by_text("message_id").first).to_be_visible()
    await page.get_by_role("link", name="WebSocket").first.click()
    await expect(page.get_by_text("message.send", exact=True).first).to_be_visible()
    assert asked and all(url.startswith(home) for url in asked), asked
    assert said == []
    await page.close()


async def test_a_command_is_copied_with_the_address_of_the_node(browser: Browser, page_node: NodeProcess) -> None:
    home = f"http://127.0.0.1:{page_node.port}"
    page = await plain_page(browser, permissions=["clipboard-read", "clipboard-write"])
    await page.goto(f"{home}/docs#post_conversations")
    operation = page.locator("#post_conversations")
    await operation.locator("summary").click()
    await operation.evaluate(WATCH)
    await operation.get_by_role("button", name="Copy as curl").click()
    await page.wait_for_function("() => window.texts.some((text) => text.includes('Copied'))")
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f'curl "{home}/v1/conversations" -H "Authorization: Bearer $TOKEN" -d ')
    await page.close()


@pytest.mark.long
async def test_the_api_page_has_no_barriers_and_fits_a_phone(browser: Browser, page_node: NodeProcess) -> None:
    for scheme in ("light", "dark"):
        page = await plain_page(browser, color_scheme=scheme, viewport={"width": 360, "height": 740}, bypass_csp=True)
        await page.goto(f"http://127.0.0.1:{page_node.port}/docs")
        await page.evaluate(OPEN_SOME)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        results = await Axe().run(page)
        assert results.violations_count == 0, results.generate_report()
        await page.close()
