"""Two people and a phone, from the first picture to the last word: files, reactions, mentions, threads, polls, voice.

`PICTURES=1` keeps what they saw in docs/pictures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, expect

from tests.browser.test_pictures import PHONE
from tests.support.browser.people import People, Person
from tests.support.browser.pictures import picture, sunset
from tests.support.browser.seeding import Seeds
from tests.support.nodes.node_process import NodeProcess

Named = Callable[[str], str]
DESK: dict[str, Any] = {"viewport": {"width": 1180, "height": 740}}
SECONDS = re.compile("^[0-9]:(0[1-9]|[1-5][0-9])$")  # one at least
PLACE = "This is the place. Shall we go there on **Sunday**?"


async def choose(person: Person, text: str, entry: str) -> None:
    await person.message(text).hover()
    await person.message(text).get_by_label("Message menu").click()
    await person.page.get_by_role("menuitem", name=entry, exact=True).click()


async def test_two_people_and_a_phone_plan_a_trip(
    whole_browser: Browser, page_node: NodeProcess, seeds: Seeds, named: Named, folder: Path
) -> None:
    people = People(whole_browser, page_node)  # it asks whether to show notifications
    ids = {name: named(name.lower()) for name in ("Ann", "Ben", "Carla", "Dana")}
    for name, id_ in ids.items():
        await seeds.introduce(id_, f"{name} Example")
    await seeds.say(ids["Dana"], await seeds.direct(ids["Dana"], ids["Ann"]), "See you at the station")
    trip = await seeds.create(ids["Ben"], "group", [ids["Ann"], ids["Carla"]], "Sunday trip")
    await seeds.say(ids["Ben"], trip, "Where do we go this time?")
    await seeds.say(ids["Carla"], trip, "Somewhere with water, please")
    ann, ben = await people(ids["Ann"], **DESK), await people(ids["Ben"], **DESK)
    phone = await people(ids["Ann"], **PHONE)
    await ann.open(trip)
    await ben.open(trip)
    await a_picture(ann, ben)
    await an_answer_for_me(ann, ben, phone)
    for person in (ann, phone):
        await person.page.get_by_role("button", name="No", exact=True).click()
    await picture(ann, folder / "journey-desktop.png")
    await ann.page.emulate_media(color_scheme="dark")
    await picture(ann, folder / "journey-dark.png")
    await ann.page.emulate_media(color_scheme="light")
    await beside_it(ann, ben, phone, folder)
    await on_the_way(ben, phone, trip, folder)
    await found_again(ann, folder)
    await a_vote(ann, ben, folder)
    assert await people.close() == []


async def a_picture(ann: Person, ben: Person) -> None:
    files = [{"name": "harbour.png", "mimeType": "image/png", "buffer": sunset(480, 270)}]
    await ann.page.locator('.thread-open input[type="file"]').set_input_files(files)  # type: ignore[arg-type]
    await ann.send(PLACE)
    seen = ben.page.locator(".picture img")
    await expect(seen).to_be_visible()
    await ben.until("() => document.querySelector('.picture img').naturalWidth > 0")
    await choose(ben, PLACE.replace("**", ""), "React with ❤️")
    await expect(ann.page.locator(".reaction")).to_have_text("❤️1")
    await ann.page.locator(".reaction").click()
    await expect(ben.page.locator(".reaction")).to_have_text("❤️2")
    await choose(ann, PLACE.replace("**", ""), "Pin")
    await expect(ben.page.locator(".pinbar")).to_contain_text("This is the place.")


async def an_answer_for_me(ann: Person, ben: Person, phone: Person) -> None:
    await ann.leave()
    await ben.message(PLACE.replace("**", "")).hover()
    await ben.message(PLACE.replace("**", "")).get_by_label("Reply", exact=True).click()
    field = ben.page.get_by_role("textbox", name="Message", exact=True)
    await field.type("Yes! @Ann")
    await expect(ben.page.locator(".suggestion").first).to_contain_text("Ann Example")
    await field.press("Enter")
    await field.type("can you bring the map?")
    await field.press("Enter")
    await expect(phone.row("Sunday trip").locator(".badge-mention")).to_be_visible()
    await ann.row("Sunday trip").click()
    await expect(ann.page.locator(".mention.is-me")).to_be_visible()
    await expect(phone.row("Sunday trip").locator(".badge-mention")).to_have_count(0)  # ann has seen it at her desk


async def beside_it(ann: Person, ben: Person, phone: Person, folder: Path) -> None:
    root = "Somewhere with water, please"
    await ann.message(root).first.hover()
    await ann.message(root).first.get_by_label("Reply in thread").click()
    for person, text in ((ann, "Warm enough to swim?"), (ben, "In November? You first"), (ann, "Then only the feet")):
        if person is ben:
            await ben.page.locator(".thread .thread-line").click()
        field = person.page.get_by_role("textbox", name="Reply in thread")
        await field.fill(text)
        await field.press("Enter")
        await expect(ann.page.locator(".side .text").last).to_have_text(text)
    await expect(ben.page.locator(".side .text")).to_have_count(4)
    await expect(phone.page.get_by_label("Threads", exact=True)).to_be_visible()
    await picture(ann, folder / "journey-thread.png")
    await ann.dismiss(".side")
    await ben.dismiss(".side")


async def on_the_way(ben: Person, phone: Person, trip: str, folder: Path) -> None:
    await picture(phone, folder / "journey-phone-inbox.png")
    await phone.open(trip)
    await expect(phone.page.locator(".quote")).to_contain_text("This is the place.")
    await phone.context.set_offline(True)
    await expect(phone.page.locator(".banner")).to_be_visible()
    await phone.send("It is in my bag already")
    await phone.sees_tick("It is in my bag already", "sending")
    await picture(phone, folder / "journey-phone-offline.png")
    await phone.context.set_offline(False)
    await ben.sees("It is in my bag already")
    await phone.sees_tick("It is in my bag already", "sent")
    await expect(ben.message("It is in my bag already")).to_have_count(1)


async def found_again(ann: Person, folder: Path) -> None:
    await ann.page.keyboard.press("Control+k")
    await ann.page.keyboard.type("map")
    hit = ann.page.locator(".quick-row .hit")
    await expect(hit).to_contain_text("can you bring the map?")
    await picture(ann, folder / "journey-search.png")
    async with ann.noticing("() => document.querySelector('.message.is-shown')?.textContent.includes('the map?')"):
        await hit.click()


async def a_vote(ann: Person, ben: Person, folder: Path) -> None:
    await ann.page.get_by_label("Attach a file").first.click()
    await ann.page.get_by_role("menuitem", name="Poll").click()
    dialog = ann.page.get_by_role("dialog", name="New poll")
    await dialog.get_by_label("Question").fill("When does the train leave?")
    for number, option in enumerate(("At nine", "At ten, with breakfast", "In the afternoon"), 1):
        await dialog.get_by_label(f"Option {number}", exact=True).fill(option)
    await dialog.get_by_role("button", name="Send").click()
    await ben.page.locator(".poll-option").nth(1).click()
    await expect(ann.page.locator(".poll-option").nth(1)).to_have_attribute(
        "aria-label", "At ten, with breakfast, 1 vote"
    )
    await ann.page.locator(".poll-option").nth(1).click()
    await ben.page.get_by_label("Record a voice message").first.click()
    await expect(ben.page.get_by_role("timer")).to_have_text(SECONDS)
    await ben.page.get_by_label("Send the voice message").click()
    await expect(ann.page.locator(".sound .sound-time")).to_have_text(SECONDS)
    await picture(ann, folder / "journey-poll.png")
