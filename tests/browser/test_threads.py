"""Threads beside their conversation: replies, their count below the root, what is unread, and the list of them all."""

from __future__ import annotations

from collections.abc import Callable

from playwright.async_api import FilePayload, Locator, expect

from tests.browser.test_access import findings
from tests.browser.test_pictures import PHONE
from tests.support.browser.people import People, Person
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]


# How far the buttons of a short message stand over its bubble, where a thread takes the room.
COVERED_PX = """(message) => {
  const [bar, bubble] = ['.message-bar', '.bubble'].map((one) => message.querySelector(one).getBoundingClientRect());
  return Math.max(0, Math.min(bar.right, bubble.right) - Math.max(bar.left, bubble.left));
}"""


async def answer(person: Person, text: str) -> None:
    field = person.page.get_by_role("textbox", name="Reply in thread")
    await field.fill(text)
    await field.press("Enter")


def side(person: Person) -> Locator:
    return person.page.get_by_role("complementary", name="Thread")


async def test_replies_stand_beside_the_conversation_and_have_their_own_unread(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    group = await seeds.create(you, "group", [me], "builders")
    await seeds.say(you, group, "which colour?", "and which size?")
    ann, bob = await (await people(me)).open(group), await (await people(you)).open(group)
    await ann.message("which colour?").hover()
    await ann.message("which colour?").get_by_label("Reply in thread").click()
    await expect(ann.page.get_by_role("textbox", name="Reply in thread")).to_be_focused()
    await answer(ann, "blue")
    await expect(side(ann).locator(".text")).to_have_text(["which colour?", "blue"])
    await expect(side(ann).locator('.message:last-child [data-state="sent"]')).to_be_visible()
    assert await findings(ann, "a thread") == []
    await ann.message("and which size?").hover()
    assert await ann.message("and which size?").evaluate(COVERED_PX) == 0
    for person in (ann, bob):
        await expect(person.page.locator(".thread .thread-line")).to_contain_text("1 reply")
        await expect(person.page.locator(".thread .text")).to_have_text(["which colour?", "and which size?"])
    await expect(bob.page.locator(".thread-line .badge")).to_have_text("1")
    await expect(bob.page.get_by_label("Threads, 1 unread")).to_be_visible()
    await expect(bob.row("builders").locator(".badge")).to_have_count(0)

    await bob.page.get_by_label("Threads, 1 unread").click()
    await expect(bob.page.locator(".listed")).to_contain_text("builders · 1 reply")
    assert await findings(bob, "threads") == []
    await bob.page.keyboard.press("Enter")
    await expect(side(bob).locator(".text")).to_have_text(["which colour?", "blue"])
    await expect(bob.page.get_by_label("Threads", exact=True)).to_be_visible()
    await expect(bob.page.locator(".thread-line .badge")).to_have_count(0)

    await bob.page.get_by_label("Also send to the conversation").check()
    await answer(bob, "blue it is")
    for person in (ann, bob):
        await expect(side(person).locator(".text")).to_have_text(["which colour?", "blue", "blue it is"])
        await expect(person.page.locator(".thread .in-thread")).to_be_visible()
        await expect(person.page.locator(".thread .thread-line")).to_contain_text("2 replies")
    await side(ann).get_by_role("button", name="Unfollow").click()
    await expect(side(ann).get_by_role("button", name="Follow", exact=True)).to_be_visible()
    await ann.dismiss(".side")
    await expect(side(ann)).to_be_hidden()
    await ann.page.reload()
    await expect(ann.page.locator(".thread .thread-line")).to_contain_text("2 replies")
    await ann.page.locator(".thread .in-thread").click()
    await expect(side(ann).locator(".text")).to_have_text(["which colour?", "blue", "blue it is"])


async def test_a_reply_in_a_thread_carries_files(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    group = await seeds.create(you, "group", [me], "builders")
    await seeds.say(you, group, "where is the plan?")
    ann, bob = await (await people(me)).open(group), await (await people(you)).open(group)
    await ann.message("where is the plan?").hover()
    await ann.message("where is the plan?").get_by_label("Reply in thread").click()
    plan: FilePayload = {"name": "plan.txt", "mimeType": "text/plain", "buffer": b"some words"}
    await side(ann).locator('input[type="file"]').set_input_files(plan)
    await expect(side(ann).locator(".attachment")).to_have_count(1)
    await answer(ann, "here it is")
    await expect(side(ann).locator(".file")).to_contain_text("plan.txt")
    await expect(side(ann).locator(".attachment")).to_have_count(0)
    await bob.page.locator(".thread .thread-line").click()
    await expect(side(bob).locator(".file")).to_contain_text("plan.txt")
    await expect(bob.page.locator(".thread-open .file")).to_have_count(0)


async def test_on_a_phone_a_thread_stands_in_place_of_the_conversation(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "look at this")
    ann = await (await people(me, **PHONE)).open(conversation)
    await ann.page.evaluate("document.querySelector('.message-thread').click()")
    await expect(side(ann)).to_be_visible()
    await expect(ann.page.locator(".thread")).to_be_hidden()
    await answer(ann, "I see")
    await expect(side(ann).locator(".text")).to_have_text(["look at this", "I see"])
    assert await findings(ann, "a thread on a phone") == []
    await ann.page.get_by_label("Close the thread").tap()
    await expect(ann.page.locator(".thread .thread-line")).to_contain_text("1 reply")
