"""An answer that is written piece by piece grows in its place, and its end changes nothing but the caret."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from playwright.async_api import expect

from tests.support.browser.people import People
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]
AT_END = """() => {
  const view = document.querySelector('.thread-view');
  return view.scrollHeight - view.clientHeight - view.scrollTop < 30;
}"""


async def test_an_answer_grows_in_place_and_is_whole_for_who_opens_it_halfway(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, bot = named("ann"), named("bot")
    conversation = await seeds.direct(me, bot)
    await seeds.say(me, conversation, "how do I do it?")
    ann = await (await people(me)).open(conversation)
    writer = await seeds.client(bot)
    stream = {"conversation_id": conversation, "message_id": "re-1"}
    begun = await writer.request("message.begin", **stream, text="")
    row = ann.page.locator(f'.message[data-seq="{begun["seq"]}"]')
    await expect(row.locator(".text.is-waiting")).to_be_visible()
    lines = [f"line **{number}** of the answer\n" for number in range(60)]
    said = ""
    for piece in lines[:30]:
        writer.send({"type": "message.append", **stream, "offset": len(said), "text": piece})
        said += piece
    await expect(row.locator(".text")).to_contain_text("line 29 of the answer")
    await expect(row).to_have_class("message is-first is-last is-direct is-streaming")
    await expect(row.locator("strong").first).to_have_text("0")
    await ann.until(AT_END)
    late = await (await people(me)).open(conversation)
    for piece in lines[30:]:
        writer.send({"type": "message.append", **stream, "offset": len(said), "text": piece})
        said += piece
    for person in (ann, late):
        await expect(person.page.locator(".is-streaming .text")).to_contain_text("line 59 of the answer")
    await writer.request("message.end", **stream)
    for person in (ann, late):
        text = person.page.locator(f'.message[data-seq="{begun["seq"]}"]:not(.is-streaming) .text')
        assert (await text.inner_text()).count("of the answer") == len(lines)
        await expect(person.page.locator(".more-text")).to_have_count(0)
        await expect(person.page.get_by_text("edited")).to_have_count(0)
    await expect(ann.page.locator('[role="log"]')).to_contain_text("line **59** of the answer")
    await ann.until(AT_END)


async def test_an_answer_that_is_taken_back_leaves_no_caret(people: People, seeds: Seeds, named: Named) -> None:
    me, bot = named("ann"), named("bot")
    conversation = await seeds.direct(me, bot)
    ann = await (await people(me)).open(conversation)
    writer = await seeds.client(bot)
    stream = {"conversation_id": conversation, "message_id": "re-1"}
    begun = await writer.request("message.begin", **stream, text="hm")
    await ann.sees("hm")
    await expect(ann.page.locator(".is-streaming")).to_be_visible()
    path = f"/v1/conversations/{conversation}/messages/{begun['seq']}"
    status, _ = await asyncio.to_thread(people.node.rest, "DELETE", path, {}, bot)
    assert status == 200
    await ann.sees("This message was deleted")
    await expect(ann.page.locator(".is-streaming")).to_have_count(0)
