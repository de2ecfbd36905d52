"""Small things that make a page look unfinished when they are wrong: what is shown offline, counts, icons, times."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import expect

from tests.support.browser.old_messages import DAY_MS, JANUARY_15, import_group
from tests.support.browser.people import People
from tests.support.browser.seeding import Seeds
from tidings_proof.world.proxy import open_proxy

Named = Callable[[str], str]
# Keeps every text that the floating day shows: it is gone a second later.
WATCH_DAY = """() => {
  window.days = [];
  const day = document.querySelector('.floating-day');
  const look = () => day.classList.contains('is-shown') && window.days.push(day.textContent);
  new MutationObserver(look).observe(day, { attributes: true, childList: true, characterData: true, subtree: true });
}"""


async def test_without_a_connection_nobody_is_online_and_what_waits_is_on_top_of_the_inbox(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you, third = named("ann"), named("bob"), named("cleo")
    conversation = await seeds.direct(me, you)
    await seeds.say(you, conversation, "first")
    await seeds.say(third, await seeds.direct(third, me), "newer")
    await people(you)
    async with open_proxy(people.node.port) as network:
        ann = await (await people(me, port=network.port)).open(conversation)
        await expect(ann.row(you).locator(".dot")).to_be_visible()
        await expect(ann.page.locator(".row-name").first).to_have_text(third)
        await network.cut()
        await expect(ann.row(you).locator(".dot")).to_have_count(0)
        await expect(ann.page.locator(".thread-state")).to_have_text("")
        await ann.send("waits")
        await expect(ann.page.locator(".row-name").first).to_have_text(you)
        await expect(ann.row(you).locator(".row-preview")).to_have_text(re.compile("You: waits$"))
        await expect(ann.row(you).locator('.row-tick[data-state="sending"]')).to_be_visible()


async def test_the_reader_counts_among_those_who_are_online(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    group = await seeds.create(me, "group", [you, named("cleo"), named("dan")], "four")
    await people(you)
    ann = await (await people(me)).open(group)
    await expect(ann.page.locator(".thread-state")).to_have_text("4 members, 2 online")


async def test_copying_has_a_sign_of_its_own_and_a_time_no_leading_zero(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "copy me")
    ann = await (await people(me, locale="en-US")).open(conversation)
    times = await ann.message("copy me").locator("time").all_inner_texts()
    assert times and all(re.fullmatch(r"[1-9]\d?:\d\d\s[AP]M", time) for time in times), times
    await ann.message("copy me").hover()
    await ann.message("copy me").get_by_label("Message menu").click()
    drawings = await ann.page.get_by_role("menuitem").evaluate_all(
        "items => items.map((item) => [item.textContent, item.querySelector('svg')?.innerHTML])"
    )
    signs = dict(drawings)
    await ann.dismiss()
    await ann.send("mine")
    await ann.sees_tick("mine", "sent")
    tick = await ann.message("mine").locator("[data-state] svg").first.inner_html()
    assert signs["Copy text"] and signs["Copy text"] != tick
    drawn = [sign for sign in signs.values() if sign]  # the usual reactions are menu items too
    assert len(drawn) > 4 and len(set(drawn)) == len(drawn)


async def test_a_link_of_the_data_is_a_card_and_one_that_runs_is_none(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    writer = await seeds.client(you)
    links = {
        "a page": {"url": "https://news.example/a?b=1", "title": "A *title*", "text": "its words"},
        "a script": {"url": "javascript:alert(1)", "title": "no card"},
        "no address": {"url": ["https://news.example"], "title": "no card"},
    }
    for text, link in links.items():
        facts = {"conversation_id": conversation, "message_id": text.replace(" ", "-"), "text": text}
        assert (await writer.ask("message.send", data={"link": link}, **facts))["type"] == "ok"
    ann = await (await people(me)).open(conversation)
    await ann.sees("no address")
    card = ann.page.locator(".message .card")
    await expect(card).to_have_count(1)
    await expect(card).to_have_attribute("href", "https://news.example/a?b=1")
    assert await card.locator(":scope > *").all_inner_texts() == ["news.example", "A *title*", "its words"]


async def test_the_day_of_what_one_reads_floats_over_it_while_one_scrolls(
    people: People, named: Named, tmp_path: Path
) -> None:
    me, you, group = named("ann"), named("bob"), named("old-group")
    sent_at = [JANUARY_15 + number // 30 * DAY_MS + number for number in range(60)]
    await import_group(people, tmp_path, group, [me, you], sent_at)
    ann = await (await people(me)).open(group)
    await ann.sees("long ago 59")
    await ann.page.evaluate(WATCH_DAY)
    day = ann.page.locator(".floating-day")
    await expect(day).not_to_have_class(re.compile("is-shown"))
    move = "(view, px) => { view.scrollTop += px }"
    await ann.page.locator(".thread-view").evaluate(move, -400)
    await ann.until("() => window.days.at(-1) === '16 January 2024'")
    await ann.page.locator(".thread-view").evaluate(move, -1500)
    await ann.until("() => window.days.at(-1) === '15 January 2024'")
    await expect(day).not_to_have_class(re.compile("is-shown"))  # it goes when one reads
    shown = await ann.page.evaluate("() => window.days.length")
    await ann.page.get_by_label("Jump to the newest").click()
    await ann.send("now")
    await ann.sees_tick("now", "sent")
    await expect(day).not_to_have_class(re.compile("is-shown"))
    assert "" not in await ann.page.evaluate("(shown) => window.days.slice(shown)", shown)


async def test_a_few_emoji_alone_are_large(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "🎉", "👍🏽❤️", "👨‍👩‍👧 🇦🇹", "🎉 party", "12")
    ann = await (await people(me)).open(conversation)
    await ann.sees("12")
    sizes = await ann.page.locator(".message .text").evaluate_all(
        "texts => texts.map((text) => parseFloat(getComputedStyle(text).fontSize))"
    )
    assert sizes[0] == sizes[1] == sizes[2] > 1.5 * sizes[3] == 1.5 * sizes[4], sizes


async def test_a_name_of_another_direction_turns_no_preview_round(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    await seeds.introduce(you, "דוד כהן")
    group = await seeds.create(me, "group", [you], "two directions")
    ann = await people(me)
    await seeds.say(you, group, "can you look?")
    preview = ann.row("two directions").locator(".row-preview")
    await expect(preview).to_have_text("דוד כהן: can you look?")
    await expect(preview).to_have_css("direction", "ltr")
