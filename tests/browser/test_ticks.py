"""Send, and the ticks turn on the other side's screen: two and three browsers at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.async_api import expect

from tests.support.browser.people import People, Person
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]


async def test_a_name_is_enough_with_dev_and_the_first_message_arrives(people: People, named: Named) -> None:
    ann, bob = await people(named("ann"), is_in=False), await people(named("bob"))
    await ann.page.goto(ann.url)
    await ann.page.get_by_label("Your name").fill(ann.user_id)
    await ann.page.get_by_role("button", name="Continue").click()
    await expect(ann.row("tidings")).to_be_visible()
    await ann.page.get_by_label("New conversation").first.click()
    await ann.write_to(bob.user_id)
    await ann.send("hello from ann")
    await ann.sees_tick("hello from ann", "delivered")
    await bob.row(ann.user_id).click()
    await bob.sees("hello from ann")
    await ann.sees_tick("hello from ann", "read")
    await bob.send("hello yourself")
    await ann.sees("hello yourself")


async def test_a_message_is_sent_then_delivered_then_read(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(me, you)
    ann = await (await people(me)).open(conversation)
    await ann.send("are you there?")
    await ann.sees_tick("are you there?", "sent")
    shapes = [await shape_of(ann, "are you there?")]
    bob = await people(you)
    await ann.sees_tick("are you there?", "delivered")
    shapes.append(await shape_of(ann, "are you there?"))
    await expect(bob.row(me).locator(".badge")).to_have_text("1")
    await bob.open(conversation)
    await ann.sees_tick("are you there?", "read")
    shapes.append(await shape_of(ann, "are you there?"))
    assert len(set(shapes)) == 3, "each state has a shape of its own"
    await expect(ann.message("are you there?").locator(".tick-word")).to_have_text("Read")
    await expect(bob.page.locator(".badge")).to_have_count(0)


async def shape_of(person: Person, text: str) -> str:
    return str(await person.message(text).locator(".tick").evaluate("el => el.innerHTML"))


async def test_a_group_has_read_when_everybody_has(people: People, seeds: Seeds, named: Named) -> None:
    names = [named(name) for name in ("ann", "bob", "cleo")]
    group = await seeds.create(names[0], "group", names[1:], "three of us")
    ann, bob, cleo = [await people(name) for name in names]
    await ann.open(group)
    await ann.send("who is in?")
    await ann.sees_tick("who is in?", "delivered")
    await bob.open(group)
    await bob.sees("who is in?")
    seq = await ann.message("who is in?").get_attribute("data-seq")
    await seeds.read(names[0], group, f"messages/{seq}/receipts", lambda found: found["read"] == [names[1]])
    await ann.message("who is in?").locator("button.ticks").click()
    dialog = ann.page.get_by_role("dialog")
    await expect(dialog.get_by_role("list", name="Read").get_by_text(names[1])).to_be_visible()
    await expect(dialog.get_by_role("list", name="Delivered").get_by_text(names[2])).to_be_visible()
    await ann.dismiss()
    await ann.sees_tick("who is in?", "delivered")
    await cleo.open(group)
    await ann.sees_tick("who is in?", "read")


async def test_reading_on_one_device_clears_the_other(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "one", "two")
    laptop, phone = await people(me), await people(me)
    for device in (laptop, phone):
        await expect(device.row(you).locator(".badge")).to_have_text("2")
        await expect(device.page).to_have_title("(2) Tidings")
    await laptop.open(conversation)
    await expect(phone.row(you).locator(".badge")).to_have_count(0)
    await expect(phone.page).to_have_title("Tidings")
    await phone.open(conversation)
    await phone.send("from the phone")
    await laptop.sees("from the phone")
    await laptop.sees_tick("from the phone", "sent")


@pytest.mark.long
async def test_an_edit_and_a_deletion_are_seen_by_the_other_side(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(me, you)
    ann, bob = await (await people(me)).open(conversation), await (await people(you)).open(conversation)
    await ann.send("a slip")
    await bob.sees("a slip")
    await ann.page.get_by_role("textbox", name="Message", exact=True).press("ArrowUp")
    await ann.page.get_by_role("textbox", name="Message", exact=True).fill("a typo")
    await ann.page.get_by_role("textbox", name="Message", exact=True).press("Enter")
    await bob.sees("a typo")
    await expect(bob.message("a typo").get_by_text("edited")).to_be_visible()
    await ann.message("a typo").hover()
    await ann.message("a typo").get_by_label("Message menu").click()
    await ann.page.get_by_role("menuitem", name="Delete for everyone").click()
    await ann.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await bob.sees("This message was deleted")
    assert await bob.texts() == ["This message was deleted"]
