"""Every text of the page is in the tables of words: with a table of marked texts, nothing on any screen is unmarked."""

from __future__ import annotations

from collections.abc import Callable

from playwright.async_api import Route, expect

from tests.support.browser.people import People, Person
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]
# A language whose texts are the English ones between brackets.
MARKED = """
  import { EN } from '/web/app/words/en.js';
  const marked = (one) => (typeof one === 'string' ? `⟦${one}⟧` : everyOf(one));
  const everyOf = (table) => Object.fromEntries(Object.entries(table).map(([key, one]) => [key, marked(one)]));
  export default everyOf(EN);
"""
# Texts and labels with words outside of the brackets. `known` is what people wrote, and signs that need no language.
# The browser itself writes the dates of `time`.
UNMARKED = """(known) => {
  const said = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (walker.currentNode.parentElement.checkVisibility()) said.push(walker.currentNode.data);
  for (const name of ['aria-label', 'placeholder', 'title', 'alt']) {
    for (const one of document.querySelectorAll(`[${name}]:not(time)`)) said.push(one.getAttribute(name));
  }
  const rest = (text) => {
    let inner = text;
    for (const word of known) inner = inner.replaceAll(word, '');
    while (/⟦[^⟦⟧]*⟧/u.test(inner)) inner = inner.replace(/⟦[^⟦⟧]*⟧/gu, '');
    return inner;
  };
  return [...new Set(said.filter((text) => /\\p{L}{2,}/u.test(rest(text))))];
}"""


async def marked_page(people: People, user_id: str) -> Person:
    """A page in the marked language. It is shown nobody else: names of people need no language."""
    person = await people(user_id, is_in=False, locale="de-DE", service_workers="block")

    async def nobody(route: Route) -> None:
        await route.fulfill(json={"users": [], "conversations": [], "next_cursor": None})

    async def words(route: Route) -> None:
        await route.fulfill(body=MARKED, content_type="text/javascript")

    await person.page.route("**/web/app/words/de.js", words)
    await person.page.route("**/v1/users?**", nobody)
    await person.page.route("**/v1/directory**", nobody)
    return await person.enter(people.node.token(user_id))


async def test_no_text_of_the_page_is_outside_of_the_tables(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    known = [me, you, "builders", "which colour?", "blue", "Tidings", "Ctrl K", "https://", "tidings"]
    ann = await marked_page(people, me)
    found: dict[str, list[str]] = {}

    async def look(screen: str) -> None:
        if unmarked := await ann.page.evaluate(UNMARKED, known):
            found[screen] = unmarked

    await expect(ann.page.get_by_text("⟦No conversations yet⟧")).to_be_visible()
    await look("empty inbox")
    group = await seeds.create(you, "group", [me], "builders")
    await seeds.say(you, group, "which colour?")
    await seeds.reply(you, group, 1, "blue")
    await ann.open(group)
    await look("conversation")
    await ann.page.locator(".message").hover()
    await ann.page.get_by_label("⟦Reply⟧", exact=True).click()
    await look("an answer")
    await ann.page.locator(".message").hover()
    await ann.page.get_by_label("⟦Message menu⟧").click()
    await look("menu of a message")
    await ann.dismiss()
    await ann.page.locator(".thread .thread-line").click()
    await expect(ann.page.locator(".side .text")).to_have_count(2)
    await look("thread")
    await ann.dismiss(".side")
    for label in ("Conversation menu", "Your account"):
        await ann.page.get_by_label(f"⟦{label}⟧").click()
        await look(label)
        await ann.dismiss()
    for entry, loaded in (
        ("Your profile", "#profile-name"),
        ("Preferences", "#who-write"),
        ("Public conversations", ".list-empty"),
        ("Saved messages", ".list-empty"),
    ):
        await ann.page.get_by_label("⟦Your account⟧").click()
        await ann.page.get_by_role("menuitem", name=f"⟦{entry}⟧").click()
        await ann.page.locator("dialog").locator(loaded).wait_for()
        await look(entry)
        await ann.dismiss()
    for label, loaded in (
        ("New conversation", "dialog #people"),
        ("Threads", "dialog :is(.listed, .list-empty)"),
        ("Search messages", ".find"),
    ):
        await ann.page.get_by_label(f"⟦{label}").first.click()
        await ann.page.locator(loaded).wait_for()
        await look(label)
        await ann.dismiss(loaded.split()[0])
    await ann.page.locator(".thread-who").click()
    await expect(ann.page.get_by_role("dialog").locator(".person")).to_have_count(2)
    await look("members")
    await ann.dismiss()
    await ann.page.keyboard.press("Control+k")
    await look("search")
    assert found == {}
