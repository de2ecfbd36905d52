"""The first minute: links that sign in, refusals that say why, and the team's login instead of a field for tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import Browser, expect

from tests.browser.conftest import LIMITS
from tests.support.browser.people import People
from tests.support.browser.seeding import Seeds
from tests.support.devices.plain_client import sign
from tests.support.nodes.node_process import SECRET, NodeProcess
from tidings.clock import Clock

Named = Callable[[str], str]


async def test_a_link_with_a_name_signs_in_with_dev(people: People, named: Named) -> None:
    ann = await people(named("ann"), is_in=False)
    await ann.page.goto(f"{ann.url}/?as={ann.user_id.title()}")
    await expect(ann.row("tidings")).to_be_visible()
    assert "as=" not in ann.page.url, "a reload keeps the session and not the word"
    account = ann.page.get_by_label("Your account")
    await expect(account).to_have_attribute("data-shown", f"{ann.user_id.title()} null")
    await account.click()
    await expect(ann.page.get_by_text(f"Signed in as {ann.user_id.title()} ({ann.user_id})")).to_be_visible()
    other = await ann.context.new_page()
    await other.goto(f"{ann.url}/?as={named('bob')}")
    await other.get_by_label("Your account").click()
    await expect(other.get_by_text(f"Signed in as {named('bob')}")).to_be_visible()


async def test_an_expired_token_says_that_it_has_expired(people: People, named: Named) -> None:
    ann = await people(named("ann"), is_in=False)
    expired = sign(SECRET, ann.user_id, ttl_s=1, now_ms=Clock().now_ms() - 60_000)
    await ann.page.goto(f"{ann.url}/#token={expired}")
    await expect(ann.page.get_by_text("Please sign in again: This sign-in has expired.")).to_be_visible()


async def test_the_team_s_login_stands_in_place_of_a_field_for_tokens(
    browser: Browser, named: Named, tmp_path: Path
) -> None:
    env = LIMITS | {"TIDINGS_LOGIN_URL": "https://id.example/login?app=chat"}
    with NodeProcess(tmp_path / "data", env) as node:
        people = People(browser, await asyncio.to_thread(node.start))
        ann = await people(named("ann"), is_in=False)
        await ann.page.goto(f"{ann.url}/#/c/c1")
        link = ann.page.get_by_role("link", name="Sign in")
        href = await link.get_attribute("href")
        assert href is not None and href.startswith("https://id.example/login?app=chat&return_to=http")
        await expect(ann.page.get_by_label("Token")).to_have_count(0)
        await expect(ann.page.get_by_text("metrics")).to_have_count(0)
        assert await people.close() == []


async def test_the_first_visit_has_few_requests_and_the_next_ones_one(people: People, named: Named) -> None:
    ann = await people(named("ann"), is_in=False)
    asked: list[str] = []
    ann.page.on("request", lambda request: asked.append(request.url.removeprefix(ann.url)))
    await ann.enter(people.node.token(ann.user_id))
    assert len([path for path in asked if not path.startswith("/v1")]) <= 6, asked
    asked.clear()
    await ann.page.reload()
    await expect(ann.page.locator(".inbox-empty")).to_be_visible()
    answers = await ann.page.evaluate(
        "performance.getEntriesByType('resource').filter((one) => one.transferSize > 0 && !one.name.includes('/v1/'))"
        ".map((one) => one.name)"
    )
    assert answers == []


async def test_the_person_beside_one_is_found_by_name(people: People, seeds: Seeds, named: Named) -> None:
    """Their id is made of the name and looks different. Who writes to the name must reach them, and no ghost."""
    number = named("")
    alice, mallory = await people(named("alice.cooper"), is_in=False), await people(named("mallory"), is_in=False)
    for person, name in ((alice, f"Alice Cooper{number}"), (mallory, f"Mallory{number}")):
        await person.page.goto(person.url)
        await person.page.get_by_label("Your name").fill(name)
        await person.page.get_by_role("button", name="Continue").click()
        await expect(person.row("tidings")).to_be_visible()
    await alice.page.get_by_label("New conversation").first.click()
    await alice.page.keyboard.type(f"Mallory{number}")
    await expect(alice.page.locator(".option").first).to_contain_text(f"mallory{number}")
    await alice.page.keyboard.press("Enter")
    await expect(alice.page.locator(".thread-name")).to_have_text(f"Mallory{number}")
    await alice.send("hi")
    await mallory.row(f"Alice Cooper{number}").click()
    await mallory.sees("hi")


TABLES = """async (languages) => {
  const { EN } = await import('/web/app/words/en.js');
  const found = (value) => [...JSON.stringify(value).matchAll(/\\{(\\w+)\\}/g)].map((one) => one[1]);
  const holes = (value) => [...new Set(found(value))].sort().join();
  const wrong = [];
  for (const language of languages) {
    const table = (await import(`/web/app/words/${language}.js`)).default;
    for (const key of new Set([...Object.keys(EN), ...Object.keys(table)])) {
      if (!(key in EN) || !(key in table) || holes(EN[key]) !== holes(table[key])) wrong.push(`${language} ${key}`);
    }
  }
  return wrong;
}"""


async def test_the_page_speaks_the_language_of_the_browser(people: People, named: Named) -> None:
    ann = await people(named("ann"), locale="de-AT")
    await expect(ann.page.get_by_role("heading", name="Noch keine Unterhaltungen")).to_be_visible()
    assert await ann.page.evaluate("document.documentElement.lang") == "de"
    bob = await people(named("bob"), locale="nl-NL")
    await expect(bob.page.get_by_role("heading", name="No conversations yet")).to_be_visible()


EMOJI_NAMES = """async (languages) => {
  const { EMOJI } = await import('/web/app/writing/emojis.js');
  const wrong = [];
  for (const language of languages) {
    const table = (await import(`/web/app/words/emoji-${language}.js`)).default;
    for (const [group, ones] of Object.entries(EMOJI)) {
      const names = table[group].split(/,\\s*/).filter(Boolean);
      if (names.length !== ones.length || new Set(names).size !== ones.length) wrong.push(`${language} ${group}`);
    }
  }
  return wrong;
}"""


async def test_every_emoji_has_a_name_of_its_own_in_every_language(people: People, seeds: Seeds, named: Named) -> None:
    me = named("ann")
    ann = await (await people(me, locale="de-AT")).open(await seeds.direct(me, named("bob")))
    assert await ann.page.evaluate(EMOJI_NAMES, ["de", "es", "fr", "it", "pt"]) == []
    await ann.page.get_by_label("Emoji", exact=True).click()
    await ann.page.get_by_label("Emoji suchen").fill("rakete")
    await ann.page.get_by_role("button", name="Rakete").click()
    await expect(ann.page.get_by_role("textbox", name="Nachricht", exact=True)).to_have_value("🚀")


async def test_every_language_has_every_text(people: People, named: Named) -> None:
    ann = await people(named("ann"))
    assert await ann.page.evaluate(TABLES, ["de", "es", "fr", "it", "pt"]) == []
