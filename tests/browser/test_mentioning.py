"""Mentions: chosen while writing, shown by name, counted beside the unread messages, and a filter for them."""

from __future__ import annotations

from collections.abc import Callable

from playwright.async_api import expect

from tests.support.browser.people import People
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]


async def test_a_person_is_mentioned_and_finds_it(people: People, seeds: Seeds, named: Named) -> None:
    me, you, third = named("ann"), named("bob"), named("cleo")
    await seeds.introduce(you, "Bob Example")
    group = await seeds.create(me, "group", [you, third], "three of us")
    bob, ann = await people(you), await (await people(me)).open(group)
    await expect(ann.page.locator(".thread-state")).to_contain_text("3 members")
    field = ann.page.get_by_role("textbox", name="Message", exact=True)
    await field.type("look, @Exam")
    await expect(ann.page.locator(".suggestion")).to_contain_text("Bob Example")
    await field.press("Enter")
    await field.type("this is for you")
    await field.press("Enter")
    await expect(ann.page.locator(".mention")).to_have_text("@Bob Example")
    row = bob.row("three of us")
    await expect(row.locator(".badge-mention")).to_be_visible()
    await expect(row).to_contain_text("1 mention")
    await seeds.say(third, await seeds.direct(third, you), "hi")
    await expect(bob.page.locator(".row")).to_have_count(2)
    await bob.page.get_by_role("button", name="Mentions", exact=True).click()
    await expect(bob.page.locator(".row-name")).to_have_text(["three of us"])
    await row.click()
    await expect(bob.page.locator(".mention.is-me")).to_be_visible()
    await expect(row.locator(".badge-mention")).to_have_count(0)


async def test_a_person_of_an_identity_provider_is_mentioned(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), f"auth0|{named('bob')}"
    await seeds.introduce(you, "Bob Example")
    ann = await (await people(me)).open(await seeds.create(me, "group", [you], "the two of us"))
    await ann.send(f"@{you}: look, and @{you}.")
    await expect(ann.page.locator(".mention")).to_have_text(["@Bob Example", "@Bob Example"])
    await expect(ann.page.locator(".message .text")).to_have_text("@Bob Example: look, and @Bob Example.")


async def test_a_pinned_conversation_is_on_top_after_a_reload(people: People, seeds: Seeds, named: Named) -> None:
    me = named("ann")
    first = await seeds.create(me, "group", [], "the oldest of all")
    await seeds.say(me, first, "long ago")
    for number in range(45):
        await seeds.say(me, await seeds.create(me, "group", [], f"later {number}"), "hi")
    ann = await (await people(me)).open(first)
    await ann.page.get_by_label("Conversation menu").click()
    await ann.page.get_by_role("menuitem", name="Pin to the top").click()
    await ann.leave()
    await expect(ann.page.locator(".row-name").first).to_have_text("the oldest of all")
    await ann.page.reload()
    await expect(ann.page.locator(".row-name").first).to_have_text("the oldest of all")
