"""What people keep: pinned messages for everybody, saved ones for oneself, drafts on all devices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from playwright.async_api import expect

from tests.browser.test_access import findings
from tests.support.browser.people import MARKED, People, Person
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]


async def choose(person: Person, text: str, entry: str) -> None:
    """An entry of the menu of a message."""
    await person.message(text).hover()
    await person.message(text).get_by_label("Message menu").click()
    await person.page.get_by_role("menuitem", name=entry, exact=True).click()


async def test_pinned_messages_stand_below_the_head_and_lead_to_their_place(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "the address is Elm Street 4", *(f"line {number}" for number in range(120)))
    ann, bob = await (await people(me)).open(conversation), await (await people(you)).open(conversation)
    await choose(bob, "line 119", "Pin")
    for person in (ann, bob):
        await expect(person.page.locator(".pinbar")).to_contain_text("line 119")
        await expect(person.message("line 119").locator(".pin-mark")).to_be_visible()
    path = f"/v1/conversations/{conversation}/messages/1/pin"
    status, _ = await asyncio.to_thread(people.node.rest, "PUT", path, None, me)
    assert status == 200
    bar = ann.page.locator(".pinbar-jump")
    await expect(bar).to_contain_text("Pinned message 1 of 2")
    await expect(bar).to_contain_text("the address is Elm Street 4")
    await bar.focus()
    await ann.page.keyboard.press("Enter")
    await ann.sees("the address is Elm Street 4")
    await expect(bar).to_contain_text("line 119")
    await ann.page.keyboard.press("Enter")
    await expect(ann.message("line 119")).to_be_in_viewport()
    await ann.page.get_by_label("All pinned messages").click()
    await expect(ann.page.locator(".listed")).to_have_count(2)
    assert await findings(ann, "pinned messages") == []
    await ann.page.get_by_role("dialog").get_by_label("Unpin").first.click()
    await expect(ann.page.locator(".listed")).to_have_count(1)
    await ann.dismiss()
    for person in (ann, bob):
        await expect(person.page.locator(".pinbar")).to_contain_text("line 119")
    await choose(bob, "line 119", "Unpin")
    for person in (ann, bob):
        await expect(person.page.locator(".pinbar")).to_be_hidden()


async def test_a_saved_message_is_found_again_and_nobody_else_knows(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "the password of the door is 4711", "and so on")
    ann, bob = await (await people(me)).open(conversation), await (await people(you)).open(conversation)
    await ann.page.get_by_label("Your account").click()
    await ann.page.get_by_role("menuitem", name="Saved messages").click()
    await expect(ann.page.get_by_text("Nothing saved yet")).to_be_visible()
    assert await findings(ann, "nothing saved") == []
    await ann.dismiss()
    await choose(ann, "the password of the door is 4711", "Save for later")
    await expect(ann.message("the password of the door is 4711").locator(".pin-mark")).to_be_visible()
    await ann.page.reload()
    await expect(ann.message("the password of the door is 4711").locator(".pin-mark")).to_be_visible()
    await expect(bob.page.locator(".pin-mark")).to_have_count(0)
    await ann.leave()
    await ann.page.get_by_label("Your account").click()
    await ann.page.get_by_role("menuitem", name="Saved messages").click()
    await expect(ann.page.locator(".listed")).to_contain_text(f"{you} · {you}")
    await expect(ann.page.locator(".listed")).to_be_focused()
    async with ann.noticing(MARKED, "the password of the door is 4711"):
        await ann.page.keyboard.press("Enter")
    await choose(ann, "the password of the door is 4711", "Remove from saved")
    await expect(ann.page.locator(".pin-mark")).to_have_count(0)


async def test_a_draft_goes_with_the_person_from_device_to_device(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "well?")
    desk, phone = await (await people(me)).open(conversation), await people(me)
    await desk.page.get_by_role("textbox", name="Message", exact=True).type("I think that")
    await expect(phone.row(you)).to_contain_text("Draft: I think that")
    await phone.open(conversation)
    field = phone.page.get_by_role("textbox", name="Message", exact=True)
    await expect(field).to_have_value("I think that")
    await field.press("End")
    await field.type(" we should")
    await expect(desk.page.get_by_role("textbox", name="Message", exact=True)).to_have_value("I think that we should")
    await field.press("Enter")
    await desk.sees("I think that we should")
    await expect(desk.page.get_by_role("textbox", name="Message", exact=True)).to_have_value("")
    late = await people(me)
    await expect(late.row(you)).to_contain_text("I think that we should")
    await expect(late.row(you)).not_to_contain_text("Draft")


SEND = """(text) => {
  const field = document.querySelector('.thread-open textarea');
  field.value = text; // pasted or spoken: no key was pressed that began a draft
  field.form.dispatchEvent(new Event('submit', { cancelable: true }));
}"""


async def test_a_message_that_began_no_draft_clears_none(people: People, seeds: Seeds, named: Named) -> None:
    me = named("ann")
    ann = await (await people(me)).open(await seeds.direct(me, named("bob")))
    asked: list[str] = []
    ann.page.on("request", lambda request: asked.append(request.url))
    for text in ("one", "two"):
        await ann.page.evaluate(SEND, text)
        await ann.sees_tick(text, "sent")
    assert [url for url in asked if "/v1/drafts/" in url] == []
