"""What was said is found again, however long ago, and shown in its place. Imported messages have their own dates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.async_api import expect

from tests.support.browser.old_messages import JANUARY_15, import_group
from tests.support.browser.people import MARKED, People
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]


async def test_search_in_a_conversation_shows_a_match_that_is_not_loaded(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    hay = [f"hay {number}" for number in range(260)]
    await seeds.say(you, conversation, "the needle of old", *hay, "the needle of today")
    ann = await (await people(me)).open(conversation)
    await ann.page.get_by_label("Search messages").click()
    await ann.page.keyboard.type("needle")
    count = ann.page.locator(".find output")
    await expect(count).to_have_text("1 of 2")
    await expect(ann.message("the needle of today")).to_be_in_viewport()
    await ann.page.keyboard.press("Enter")
    await expect(count).to_have_text("2 of 2")
    await expect(ann.message("the needle of old")).to_be_in_viewport()
    await expect(ann.page.locator("mark")).to_have_text("needle")
    await ann.page.keyboard.press("Shift+Enter")
    await expect(ann.message("the needle of today")).to_be_in_viewport()
    await ann.page.get_by_label("Search in this conversation").fill("nothing like it")
    await expect(count).to_have_text("No match")


async def test_messages_of_all_conversations_are_found_and_lead_to_their_place(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    await seeds.introduce(you, "Bob Example")
    group = await seeds.create(you, "group", [me], "builders")
    await seeds.say(you, group, "a **giraffe** walks by `slowly`", *(f"brick {number}" for number in range(130)))
    await seeds.say(you, await seeds.direct(you, me), *(f"giraffe number {number}" for number in range(12)))
    ann = await people(me)
    await ann.page.keyboard.press("Control+k")
    await ann.page.keyboard.type("giraffe")
    hits = ann.page.locator(".quick-row .hit")
    await expect(hits).to_have_count(8)
    await expect(hits.first.locator("strong")).to_have_text("Bob Example")  # the name of a direct conversation, once
    await expect(hits.first).to_contain_text("giraffe number ")
    await expect(hits.locator("mark").first).to_have_text("giraffe")
    await expect(ann.page.locator(".more-hits")).to_be_visible()  # the index may be behind when the first hits come
    await ann.page.keyboard.press("ArrowUp")
    await expect(ann.page.locator('.quick-row[aria-selected="true"]')).to_have_text("More results")
    await ann.page.keyboard.press("Enter")
    await expect(hits).to_have_count(13)
    await expect(hits.last).to_contain_text("Bob Example · builders")
    await expect(hits.last.locator("p")).to_have_text("a giraffe walks by slowly")
    await ann.page.keyboard.press("ArrowUp")
    async with ann.noticing(MARKED, "a giraffe walks by slowly"):
        await hits.last.click()
    await expect(ann.page.locator(".thread-name")).to_have_text("builders")
    await expect(ann.message("a giraffe walks by slowly")).to_be_in_viewport()


async def test_imported_messages_have_the_date_of_their_first_life(
    people: People, named: Named, tmp_path: Path
) -> None:
    me, you, group = named("ann"), named("bob"), named("old-group")
    await import_group(people, tmp_path, group, [me, you], [JANUARY_15, JANUARY_15 + 1])
    ann = await people(me)
    await ann.row("old group").click()
    await ann.sees("long ago 1")
    await expect(ann.page.locator(".day-line")).to_have_text(["15 January 2024"])
    await expect(ann.row("old group").locator(".row-when")).to_have_text("15 Jan 2024")
    await expect(ann.row("old group").locator(".badge")).to_have_count(0)
