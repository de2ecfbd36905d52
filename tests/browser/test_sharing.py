"""Forwarded messages, polls and voice messages: each is a message with `data`, and means nothing more to the server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from playwright.async_api import FilePayload, expect

from tests.browser.test_journey import SECONDS, choose
from tests.support.browser.people import People, Person
from tests.support.browser.pictures import sunset
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]
SAID = "The harbour, at nine"


async def attach(person: Person, entry: str) -> None:
    await person.page.get_by_label("Attach a file").first.click()
    await person.page.get_by_role("menuitem", name=entry).click()


async def newest(seeds: Seeds, user_id: str, conversation_id: str) -> dict[str, object]:
    path = f"/v1/conversations/{conversation_id}/messages?limit=1"
    status, page = await asyncio.to_thread(seeds.node.rest, "GET", path, None, user_id)
    assert status == 200, page
    found: dict[str, object] = page["messages"][0]
    return found


async def test_a_forwarded_message_has_its_picture_and_names_its_author(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, author, reader, other = (named(name) for name in ("ann", "ben", "carl", "dana"))
    await seeds.introduce(author, "Ben Example")
    here = await seeds.create(author, "group", [me], "harbour")
    there = [await seeds.direct(me, one) for one in (reader, other)]
    ben, ann = await people(author), await people(me)
    await ben.open(here)
    picture: FilePayload = {"name": "sea.png", "mimeType": "image/png", "buffer": sunset(96, 54)}
    await ben.page.locator('.thread-open input[type="file"]').set_input_files([picture])
    await ben.send(SAID)
    await ann.open(here)
    await ann.sees(SAID)
    await choose(ann, SAID, "Forward")
    dialog = ann.page.get_by_role("dialog", name="Forward to")
    await dialog.get_by_label("Search conversations").fill(reader)
    await expect(dialog.get_by_role("checkbox")).to_have_count(1)
    await dialog.get_by_role("checkbox", name=reader).check()
    await dialog.get_by_label("Search conversations").fill(other)
    await dialog.get_by_role("checkbox", name=other).check()
    await dialog.get_by_role("button", name="Forward").click()
    await expect(dialog).to_have_count(0)
    for user_id, conversation in zip((reader, other), there, strict=True):
        person = await (await people(user_id)).open(conversation)
        await expect(person.page.locator(".forwarded")).to_have_text("Forwarded from Ben Example")
        await person.until("() => document.querySelector('.picture img').naturalWidth === 96")
        await person.sees(SAID)
    sent = await newest(seeds, reader, there[0])
    assert sent["data"] == {"forwarded": {"id": author, "name": "Ben Example"}}
    carl = people.everybody[2]
    await choose(carl, SAID, "Forward")  # the first author stays
    await carl.page.get_by_role("dialog").get_by_role("checkbox").first.check()
    await carl.page.get_by_role("dialog").get_by_role("button", name="Forward").click()
    await expect(carl.page.locator(".forwarded")).to_have_text(["Forwarded from Ben Example"] * 2)


async def test_a_vote_counts_once_and_moves(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("ben")
    group = await seeds.create(me, "group", [you], "lunch")
    ann, ben = await (await people(me)).open(group), await (await people(you)).open(group)
    await attach(ann, "Poll")
    dialog = ann.page.get_by_role("dialog", name="New poll")
    await dialog.get_by_role("button", name="Send").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("at least two different options")
    await dialog.get_by_label("Question").fill("Where?")
    for number, text in enumerate(("Here", "There", "Nowhere"), 1):
        await dialog.get_by_label(f"Option {number}", exact=True).fill(text)
    await dialog.get_by_role("button", name="Send").click()
    option = ben.page.locator(".poll-option")
    await expect(option).to_have_count(3)
    await option.nth(0).click()
    await expect(ann.page.locator(".poll-option").nth(0)).to_have_attribute("aria-label", "Here, 1 vote")
    await option.nth(2).click()
    await expect(ann.page.locator(".poll-option").nth(2)).to_have_attribute("aria-label", "Nowhere, 1 vote")
    await expect(ann.page.locator(".poll-option").nth(0)).to_have_attribute("aria-label", "Here, 0 votes")
    await expect(ann.page.locator(".reaction")).to_have_count(0)  # votes are drawn in the poll
    await vote_by_keys(ann)
    await expect(option.nth(1)).to_have_attribute("aria-label", "There, 1 vote")
    sent = await newest_message(seeds, you, group)
    assert sent["text"] == "📊 Where?\n1️⃣ Here\n2️⃣ There\n3️⃣ Nowhere"  # a client without polls shows this
    reactions = sent["reactions"]
    assert isinstance(reactions, dict)
    assert {key: one["count"] for key, one in reactions.items()} == {"2️⃣": 1, "3️⃣": 1}
    await ann.page.locator(".message").hover()
    await ann.page.get_by_label("Message menu").click()
    await ann.page.get_by_role("menuitem", name="Reactions", exact=True).click()
    await expect(ann.page.get_by_role("dialog").get_by_role("list", name="Nowhere")).to_contain_text(you)


async def vote_by_keys(person: Person) -> None:
    """From the list to the second option of the poll, without a pointer."""
    await person.page.locator(".thread-view").focus()
    for key in ("ArrowUp", "ArrowRight", "ArrowRight", "Enter"):
        await person.page.keyboard.press(key)


async def newest_message(seeds: Seeds, user_id: str, conversation_id: str) -> dict[str, object]:
    path = f"/v1/conversations/{conversation_id}/messages?limit=20"
    _, page = await asyncio.to_thread(seeds.node.rest, "GET", path, None, user_id)
    found: dict[str, object] = next(one for one in page["messages"] if one["kind"] == "message")
    return found


async def test_data_that_is_no_poll_is_shown_as_text(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("ben")
    direct = await seeds.direct(you, me)
    client = await seeds.client(you)
    odd: list[object] = [
        {"poll": {"question": "?", "options": ["one"]}},
        {"poll": {"question": ["?"], "options": ["a", "b"]}},
        {"poll": {"question": "?", "options": ["a", {"b": 1}]}},
        {"poll": {"question": "?", "options": [str(number) for number in range(11)]}},
        {"poll": 7, "forwarded": {"name": {"x": 1}}, "voice": {"seconds": 1}},
        {"forwarded": {"name": "<img src=x onerror=alert(1)>"}},
    ]
    for number, data in enumerate(odd):
        facts = {"message_id": f"odd{number}", "text": f"text {number}", "data": data}
        await client.request("message.send", conversation_id=direct, **facts)
    ann = await (await people(me)).open(direct)
    await expect(ann.page.locator(".messages .text")).to_have_text([f"text {number}" for number in range(len(odd))])
    await expect(ann.page.locator(".forwarded")).to_have_text("Forwarded from <img src=x onerror=alert(1)>")
    await expect(ann.page.locator(".poll")).to_have_count(0)


async def test_a_voice_message_is_recorded_sent_and_played(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("ben")
    direct = await seeds.direct(me, you)
    ann = await (await people(me)).open(direct)
    await ann.page.get_by_label("Record a voice message").click()
    await expect(ann.page.get_by_label("Send the voice message")).to_be_focused()
    await ann.dismiss(".recording")  # thrown away
    await expect(ann.page.get_by_role("textbox", name="Message", exact=True)).to_be_focused()
    await ann.page.get_by_label("Record a voice message").click()
    await expect(ann.page.get_by_role("timer")).to_have_text(SECONDS)
    await ann.page.get_by_label("Send the voice message").click()
    ben = await (await people(you)).open(direct)
    sound = ben.page.locator(".sound")
    await expect(sound).to_have_count(1)
    await expect(sound.locator(".sound-time")).to_have_text(SECONDS)
    sent = await newest(seeds, you, direct)
    assert re.fullmatch(r"🎤 \d:\d\d", str(sent["text"]))
    await expect(ben.page.locator(".row-preview")).to_contain_text(str(sent["text"]))
    async with ben.noticing("() => document.querySelector('.sound [aria-label=Pause]')"):
        await sound.get_by_label("Play").click()
    await expect(sound.get_by_label("Play")).to_be_visible()  # it is over
    assert isinstance(sent["data"], dict)
    assert sent["data"]["voice"]["seconds"] > 0.5
    levels = sent["data"]["voice"]["levels"]
    assert re.fullmatch(r"\d{40}", levels) and "9" in levels  # the microphone of the tests beeps
    await expect(sound.locator(".sound-wave i")).to_have_count(40)
    await sound.get_by_role("slider").fill("500")
    await expect(sound.locator(".sound-wave .is-past")).to_have_count(20)


async def test_a_recording_whose_microphone_goes_away_is_kept_and_not_sent(
    people: People, seeds: Seeds, named: Named
) -> None:
    me = named("ann")
    direct = await seeds.direct(me, named("ben"))
    ann = await people(me)
    await ann.page.evaluate(
        """() => {
          const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
          navigator.mediaDevices.getUserMedia = async (facts) => (window.heard = await ask(facts));
        }"""
    )
    await ann.open(direct)
    await ann.page.get_by_label("Record a voice message").click()
    await expect(ann.page.get_by_role("timer")).to_have_text(SECONDS)
    await ann.page.evaluate("() => { for (const track of window.heard.getTracks()) track.stop() }")
    await expect(ann.page.locator(".attachment")).to_contain_text("voice.webm")
    assert await ann.texts() == []
    await ann.page.get_by_role("button", name="Send", exact=True).click()
    await expect(ann.page.locator(".sound")).to_have_count(1)


async def test_without_a_microphone_the_page_says_so(people: People, seeds: Seeds, named: Named) -> None:
    direct = await seeds.direct(named("ann"), named("ben"))
    ann = await people(named("ann"))
    refuse = "() => { navigator.mediaDevices.getUserMedia = () => Promise.reject(new Error('denied')) }"
    await ann.page.evaluate(refuse)
    await ann.open(direct)
    await ann.page.get_by_label("Record a voice message").click()
    await expect(ann.page.get_by_role("alert").first).to_contain_text("The microphone cannot be used.")
