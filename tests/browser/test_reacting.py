"""Reactions: pills below a message, one press each way, and who reacted."""

from __future__ import annotations

from collections.abc import Callable

from playwright.async_api import expect

from tests.support.browser.people import People
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]


async def test_people_react_to_a_message_and_see_who_did(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "we did it")
    ann, bob = await (await people(me)).open(conversation), await (await people(you)).open(conversation)
    await ann.message("we did it").hover()
    await ann.message("we did it").get_by_label("Message menu").click()
    await ann.page.get_by_role("menuitem", name="React with 👍").click()
    for person in (ann, bob):
        await expect(person.message("we did it").locator(".reaction")).to_have_text("👍1")
    await bob.message("we did it").locator(".reaction").click()
    for person in (ann, bob):
        await expect(person.message("we did it").locator(".reaction")).to_have_text("👍2")
    await expect(bob.message("we did it").locator(".reaction")).to_have_attribute("aria-pressed", "true")
    await ann.message("we did it").hover()
    await ann.message("we did it").get_by_label("React", exact=True).click()
    await ann.page.get_by_label("Search emoji").fill("rocket")
    await ann.page.keyboard.press("Enter")
    await expect(bob.message("we did it").locator(".reaction")).to_have_text(["👍2", "🚀1"])
    await bob.message("we did it").hover()
    await bob.message("we did it").get_by_label("Message menu").click()
    await bob.page.get_by_role("menuitem", name="Reactions", exact=True).click()
    await expect(bob.page.get_by_role("dialog").locator(".person")).to_have_count(3)
    await bob.dismiss()
    await bob.message("we did it").locator(".reaction").first.click()
    await expect(ann.message("we did it").locator(".reaction")).to_have_text(["👍1", "🚀1"])
    await expect(ann.row(you).locator(".badge")).to_have_count(0)


async def test_the_usual_reactions_are_one_press_beside_a_message(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "done")
    ann = await (await people(me, viewport={"width": 1440, "height": 760})).open(conversation)
    message = ann.message("done")
    await message.hover()
    quick = message.get_by_label("React with ❤️")
    await expect(message.locator(".message-quick")).to_have_count(3)
    await quick.click()
    await expect(message.locator(".reaction")).to_have_text("❤️1")
    await expect(quick).to_have_attribute("aria-pressed", "true")
    await quick.click()
    await expect(message.locator(".reaction")).to_have_count(0)
    await ann.page.set_viewport_size({"width": 1000, "height": 760})
    await message.hover()
    await expect(message.get_by_label("Reply", exact=True)).to_be_visible()
    await expect(quick).to_be_hidden()  # there is no room for it beside a wide message
