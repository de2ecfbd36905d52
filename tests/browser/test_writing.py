"""What a message may hold and how it is written: forms, code, links, answers that jump, emoji, long texts, limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import Browser, expect

from tests.browser.conftest import LIMITS
from tests.support.browser.people import MARKED, People
from tests.support.browser.seeding import Seeds
from tests.support.nodes.node_process import NodeProcess

Named = Callable[[str], str]


async def test_code_quotes_lists_and_links_are_drawn_as_such(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    code = "```python\nif a < b:\n    print('<b>')\n```"
    await seeds.say(
        you,
        conversation,
        f"**bold** _slanted_ ~~gone~~ `inline`\n> said\n- one\n- two\n{code}\nafter",
        "www.example.com/a, me@example.com and http://example.com/b.",
        "2 * 3 * 4, snake_case_name, **",
        "a `b` `` c",
    )
    ann = await (await people(me)).open(conversation)
    first = ann.page.locator(".message .text").first
    for tag, text in (
        ("strong", "bold"),
        ("em", "slanted"),
        ("s", "gone"),
        ("blockquote", "said"),
        ("li >> nth=1", "two"),
    ):
        await expect(first.locator(tag)).to_have_text(text)
    assert await first.locator("pre code").text_content() == "if a < b:\n    print('<b>')"
    wide = "el => el.scrollWidth <= el.clientWidth"
    assert await ann.page.eval_on_selector(".thread-view", wide)
    links = ann.page.locator(".message .text a")
    hrefs = [await one.get_attribute("href") for one in await links.all()]
    assert hrefs == ["https://www.example.com/a", "mailto:me@example.com", "http://example.com/b"]
    await ann.sees("2 * 3 * 4, snake_case_name, **")
    await ann.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await first.get_by_label("Copy the code").click()
    copied = "async (text) => (await navigator.clipboard.readText()) === text"
    await ann.until(copied, "if a < b:\n    print('<b>')")


async def test_an_answer_quotes_its_message_and_leads_to_it(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "the first of all", *(f"line {number}" for number in range(120)))
    ann = await people(me)
    await ann.open(conversation, at_end=False)
    await ann.message("the first of all").hover()
    await ann.message("the first of all").get_by_label("Reply", exact=True).click()
    bar = ann.page.locator(".editing")
    await expect(bar.locator("strong")).to_have_text(f"Answer to {you}")
    await expect(bar.locator(".bar-words span")).to_have_text("the first of all")
    icon, words = await bar.locator(".bar-icon").bounding_box(), await bar.locator(".bar-words").bounding_box()
    assert icon and words and 0 <= words["x"] - (icon["x"] + icon["width"]) < 24, "the words begin beside the sign"
    await ann.send("to you")
    await expect(ann.message("to you").locator(".quote")).to_contain_text("the first of all")
    bob = await (await people(you)).open(conversation)
    await bob.sees("to you")
    quote = bob.message("to you").locator(".quote")
    await expect(quote).to_contain_text("the first of all")
    async with bob.noticing(MARKED, "the first of all"):
        await quote.click()
    await expect(bob.message("the first of all")).to_be_in_viewport()


async def test_emoji_are_picked_searched_and_written_as_words(people: People, seeds: Seeds, named: Named) -> None:
    me = named("ann")
    ann = await (await people(me)).open(await seeds.direct(me, named("bob")))
    await ann.page.get_by_label("Emoji", exact=True).click()
    await ann.page.get_by_label("Search emoji").fill("rocket")
    await ann.page.keyboard.press("Enter")
    field = ann.page.get_by_role("textbox", name="Message", exact=True)
    await expect(field).to_have_value("🚀")
    await field.press("Enter")
    await ann.sees("🚀")
    await ann.send("done :tada: and `:tada:` stays")
    await ann.sees("done 🎉 and :tada: stays")
    await field.type("thanks :pra")
    await expect(ann.page.locator(".suggestion").first).to_contain_text(":pray:")
    await field.press("Enter")
    await expect(field).to_have_value("thanks 🙏 ")


async def test_a_long_text_is_cut_until_more_of_it_is_wanted(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "\n".join(f"row {number}" for number in range(200)))
    ann = await (await people(me)).open(conversation)
    height = "el => el.getBoundingClientRect().height"
    text = ann.page.locator(".message .text")
    assert await text.evaluate(height) < 500
    await ann.page.get_by_role("button", name="Read more").click()
    await ann.until("() => document.querySelector('.message .text').getBoundingClientRect().height > 3000")
    await expect(ann.page.get_by_role("button", name="Read more")).to_have_count(0)
    await seeds.say(you, conversation, "word " * 320)
    await expect(ann.page.get_by_role("button", name="Read more")).to_be_visible()


async def test_over_the_limit_a_message_says_when_it_is_sent(browser: Browser, named: Named, tmp_path: Path) -> None:
    env = LIMITS | {"TIDINGS_LIMITS_SEND": "2/600s"}
    with NodeProcess(tmp_path / "data", env, ["--dev"]) as node:
        people = People(browser, await asyncio.to_thread(node.start))
        ann = await people(named("ann"))
        async with Seeds(node) as seeds:
            await ann.open(await seeds.direct(ann.user_id, named("bob")))
            for text in ("one", "two", "three", "four"):
                await ann.send(text)
            await expect(ann.message("three").locator(".ticks")).to_contain_text("Sends again in ")
            await expect(ann.message("four").locator(".tick-word")).not_to_contain_text("Sends again")
            await expect(ann.page.locator(".row .row-preview")).to_contain_text("You: four")
        assert await people.close() == []


async def test_a_row_says_who_wrote_what_and_what_became_of_it(people: People, seeds: Seeds, named: Named) -> None:
    me, you, third = named("ann"), named("bob"), named("cleo")
    group = await seeds.create(you, "group", [me, third], "three of us")
    direct = await seeds.direct(me, you)
    ann = await people(me)
    preview = ann.row("three of us").locator(".row-preview")
    await seeds.say(third, group, "hello **all**")
    await expect(preview).to_have_text(f"{third}: hello all")
    await ann.open(group)
    await ann.send("and you")
    await expect(preview).to_contain_text("You: and you")
    await ann.sees_tick("and you", "sent")
    await ann.message("and you").hover()
    await ann.message("and you").get_by_label("Message menu").click()
    await ann.page.get_by_role("menuitem", name="Delete for everyone").click()
    await ann.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(preview).to_have_text("You: Message deleted")
    await ann.open(direct)
    await ann.page.get_by_role("textbox", name="Message", exact=True).fill("begun")
    await ann.open(group)
    await expect(ann.row(you).locator(".row-preview")).to_have_text("Draft: begun")


async def test_any_conversation_is_a_few_keys_away(people: People, seeds: Seeds, named: Named) -> None:
    me = named("ann")
    for number in range(30):
        await seeds.create(me, "group", [], f"Project {number:02} of {'abc'[number % 3]}")
    await seeds.create(me, "group", [], "Zoëtrope guild")
    ann = await people(me)
    await ann.page.keyboard.press("Control+k")
    await ann.page.keyboard.type("zoetrope")
    await expect(ann.page.locator(".quick-row")).to_have_count(1)
    await ann.page.keyboard.press("Enter")
    await expect(ann.page.locator(".thread-name")).to_have_text("Zoëtrope guild")
    await ann.page.keyboard.press("Control+k")
    await ann.page.keyboard.type("project 07")
    await expect(ann.page.locator(".quick-row strong")).to_have_text(["Project 07 of b"])
    await ann.page.keyboard.press("Enter")
    await expect(ann.page.locator(".thread-name")).to_have_text("Project 07 of b")


async def test_a_filter_shows_what_is_unread(people: People, seeds: Seeds, named: Named) -> None:
    me, you, third = named("ann"), named("bob"), named("cleo")
    group = await seeds.create(you, "group", [me], "the group")
    await seeds.say(third, await seeds.direct(third, me), "hi")
    ann = await people(me)
    await expect(ann.page.locator(".row")).to_have_count(2)
    await ann.page.get_by_role("button", name="Unread", exact=True).click()
    await expect(ann.page.locator(".row-name")).to_have_text([third])
    await ann.page.get_by_role("button", name="Groups", exact=True).click()
    await expect(ann.page.locator(".row-name")).to_have_text(["the group"])
    await seeds.say(you, group, "new")
    await ann.page.get_by_role("button", name="Unread", exact=True).click()
    await expect(ann.page.locator(".row-name")).to_have_text(["the group", third])


async def test_a_request_is_accepted_or_declined(people: People, seeds: Seeds, named: Named) -> None:
    me, you, third = named("ann"), named("bob"), named("cleo")
    ann = await people(me)
    await ann.page.get_by_label("Your account").click()
    await ann.page.get_by_role("menuitem", name="Preferences").click()
    await ann.page.get_by_label("Who may write to you").select_option("shared")
    await ann.page.get_by_role("button", name="Save").click()
    await expect(ann.page.get_by_role("dialog")).to_have_count(0)
    for stranger in (you, third):
        await seeds.say(stranger, await seeds.direct(stranger, me), "may I?")
        await expect(ann.row(stranger)).to_contain_text("Wants to write to you")
    await ann.row(you).click()
    await ann.page.locator(".request").get_by_role("button", name="Accept").click()
    await expect(ann.page.locator(".request")).to_have_count(0)
    await ann.sees("may I?")
    await ann.row(third).click()
    await ann.page.locator(".request").get_by_role("button", name="Decline").click()
    await expect(ann.row(third)).to_have_count(0)
