"""What one finds on coming back: badges, the line before what is new, the ways to it and back, and kept places."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from playwright.async_api import WebSocketRoute, expect

from tests.support.browser.answers import Answers
from tests.support.browser.people import PATIENCE_MS, People
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]
DRAWN_MAX = 120  # rows in the DOM, both panes together, however long the lists are
AT_END = """() => {
  const view = document.querySelector('.thread-view');
  return view.scrollHeight - view.clientHeight - view.scrollTop < 30;
}"""


async def test_a_thousand_unread_are_999_plus_with_a_line_a_jump_and_a_way_back(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, *(f"line {number}" for number in range(1001)))
    ann = await people(me)
    await expect(ann.row(you).locator(".badge")).to_have_text("999+")
    await expect(ann.row(you)).to_contain_text("1,001 unread")
    await expect(ann.page).to_have_title("(999+) Tidings")
    await ann.until("() => document.querySelector('link[rel=icon]').href.startsWith('data:image/png')")
    await ann.open(conversation, at_end=False)
    await expect(ann.page.locator(".unread-line")).to_have_text("1,001 new messages")
    await ann.sees("line 0")
    await ann.until("() => !document.querySelector('.pill-now').hidden")
    await ann.page.evaluate("document.querySelector('.pill-now').click()")
    await ann.sees("line 1000")
    await ann.until(AT_END)
    await expect(ann.row(you).locator(".badge")).to_have_count(0)
    await expect(ann.page).to_have_title("Tidings")
    assert await ann.drawn() < DRAWN_MAX
    await ann.leave()
    await ann.open(conversation)
    await expect(ann.page.locator(".unread-line")).to_have_count(0)


async def test_only_what_was_in_view_is_read(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, *(f"line {number}" for number in range(60)))
    ann = await people(me)
    await ann.open(conversation, at_end=False)
    await ann.sees("line 0")
    await ann.until("() => Number(document.querySelector('.row .badge').textContent) < 60")
    assert int(await ann.row(you).locator(".badge").inner_text()) > 20, "the end was never shown"
    await ann.page.locator(".thread-view").focus()
    await ann.page.keyboard.press("End")
    await ann.sees("line 59")
    await expect(ann.row(you).locator(".badge")).to_have_count(0)


async def test_the_line_stays_where_it_was_at_opening_until_one_sends(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "old")
    ann = await (await people(me)).open(conversation)
    await ann.leave()
    await seeds.say(you, conversation, "new 1", "new 2")
    await ann.open(conversation)
    line = ann.page.locator(".unread-line")
    await expect(line).to_have_text("2 new messages")
    await seeds.say(you, conversation, "new 3")
    await ann.sees("new 3")
    await expect(line).to_have_text("2 new messages")
    order = "els => els.map(el => el.querySelector('.text')?.textContent ?? el.className)"
    rows = await ann.page.eval_on_selector_all(".messages > .message, .unread-line", order)
    assert rows == ["old", "line unread-line", "new 1", "new 2", "new 3"]
    await ann.send("mine")
    await expect(line).to_have_count(0)


async def test_messages_that_come_while_one_reads_above_wait_behind_a_pill(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, *(f"line {number}" for number in range(40)))
    ann = await (await people(me)).open(conversation)
    await ann.sees("line 39")
    await ann.until("() => !document.querySelector('.badge:not(.pill *)')")
    await ann.page.eval_on_selector(".thread-view", "el => { el.scrollTop -= 700 }")
    await expect(ann.page.get_by_label("Jump to the newest message")).to_be_visible()
    await seeds.say(you, conversation, "later 1", "later 2", "later 3")
    pill = ann.page.get_by_role("button", name="3 new messages, jump to the newest")
    await expect(pill).to_be_visible()
    await expect(ann.row(you).locator(".badge")).to_have_text("3")
    await pill.click()
    await ann.sees("later 3")
    await expect(ann.row(you).locator(".badge")).to_have_count(0)
    await expect(ann.page.locator(".pill-now")).to_be_hidden()


@pytest.mark.parametrize("is_far", [False, True], ids=["a server nearby", "a server some way off"])
async def test_older_messages_come_while_scrolling_and_the_reader_keeps_the_place(
    people: People, seeds: Seeds, named: Named, is_far: bool
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    texts = [f"line {number}" + " of several words" * (number % 7) for number in range(160)]
    await seeds.say(you, conversation, *texts)
    ann = await people(me, is_in=False)
    if is_far:
        await ann.page.route_web_socket("**/v1/ws", slowly)
    await (await ann.enter(people.node.token(me))).open(conversation)
    await ann.sees(texts[-1])
    jumped = await ann.page.evaluate(READ_UP)
    assert jumped["seen"] == 160 and jumped["worst_px"] <= 1.5, jumped
    await expect(ann.page.locator(".start-line")).to_be_visible()
    assert await ann.drawn() < DRAWN_MAX
    await expect(ann.page.locator(".messages .line", has_text="Today")).to_have_count(1)


# Scrolls up as a reader does, a part of a screen at a time up to the beginning, and measures each frame by how much the
# text that was on screen moved beside what was scrolled.
READ_UP = """async () => {
  const view = document.querySelector('.thread-view');
  const frame = () => new Promise(requestAnimationFrame);
  const topOf = (row) => row.isConnected ? row.querySelector('.text').getBoundingClientRect().top : Infinity;
  const seen = new Set();
  let worst = 0;
  while (view.scrollTop > 0 || !document.querySelector('.start-line')) {
    const row = [...document.querySelectorAll('.message')].find((el) => topOf(el) > 150);
    const before = topOf(row);
    const step = Math.min(300, view.scrollTop);
    view.scrollTop -= step;
    for (let frames = 0; frames < 3; frames += 1) {
      await frame();
      worst = Math.max(worst, Math.abs(topOf(row) - before - step));
    }
    for (const el of document.querySelectorAll('.message')) seen.add(Number(el.dataset.seq));
  }
  return { seen: seen.size, worst_px: worst };
}"""


async def test_at_the_very_top_older_messages_come_in_above_what_one_reads(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, *(f"line {number}" for number in range(120)))
    ann, answers = await people(me, is_in=False), Answers()
    await answers.join(ann.page)
    await (await ann.enter(people.node.token(me))).open(conversation)
    await ann.sees("line 119")
    answers.hold()
    await ann.page.eval_on_selector(".thread-view", "el => { el.scrollTop = 0 }")
    await ann.frames()
    oldest = await ann.page.evaluate(OLDEST)
    answers.release()
    await ann.until("text => document.querySelector('.messages .text').textContent !== text", oldest["text"])
    await ann.frames()
    after = await ann.page.evaluate(TOP_OF, oldest["text"])
    assert abs(after - oldest["top"]) <= 1.5, (oldest, after)


def slowly(socket: WebSocketRoute) -> None:
    """A server some way off: one is at the top before its answer comes."""
    loop = asyncio.get_running_loop()
    socket.connect_to_server().on_message(lambda said: loop.call_later(0.2, socket.send, said) and None)


# The oldest text that is drawn and where it is, and where a text is.
OLDEST = """() => {
  const text = document.querySelector('.messages .text');
  return { text: text.textContent, top: text.getBoundingClientRect().top };
}"""
TOP_OF = """wanted => [...document.querySelectorAll('.messages .text')]
  .find((text) => text.textContent === wanted).getBoundingClientRect().top"""


async def test_the_inbox_has_twenty_rows_then_more_and_none_twice(people: People, seeds: Seeds, named: Named) -> None:
    me = named("ann")
    others = [named(f"friend{number:02}-") for number in range(45)]
    made = await asyncio.gather(*(seeds.create(me, "group", [other], f"with {other}") for other in others))
    ann = await people(me)
    await ann.page.locator(".inbox-view").hover()
    names: set[str] = set()
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while len(names) < len(made):
            names.update(await ann.page.eval_on_selector_all(".row-name", "els => els.map(el => el.textContent)"))
            await ann.page.mouse.wheel(0, 500)
            await ann.frames()
    assert sorted(names) == sorted(f"with {other}" for other in others)
    assert await ann.drawn() < DRAWN_MAX


async def test_the_row_under_the_pointer_stays_while_others_move(people: People, seeds: Seeds, named: Named) -> None:
    me = named("ann")
    friends = [named(name) for name in ("bob", "cleo", "dan", "eve")]
    direct = {friend: await seeds.direct(friend, me) for friend in friends}
    for friend in friends:
        await seeds.say(friend, direct[friend], "first")
    ann = await people(me)
    await expect(ann.page.locator(".row-name")).to_have_text(list(reversed(friends)))
    await ann.row(friends[2]).hover()
    await seeds.say(friends[0], direct[friends[0]], "second")
    await expect(ann.row(friends[0]).locator(".badge")).to_have_text("2")
    bob, cleo, dan, eve = friends
    await expect(ann.page.locator(".row-name")).to_have_text([bob, dan, eve, cleo])
    await ann.page.mouse.move(900, 400)
    await expect(ann.page.locator(".row-name")).to_have_text([bob, eve, dan, cleo])


async def test_marked_unread_stays_unread_and_muted_is_shown(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "one", "two", "three")
    ann, phone = await people(me), await people(me)
    await ann.open(conversation)
    await expect(ann.row(you).locator(".badge")).to_have_count(0)
    await ann.message("two").hover()
    await ann.message("two").get_by_label("Message menu").click()
    await ann.page.get_by_role("menuitem", name="Mark unread from here").click()
    for device in (ann, phone):
        await expect(device.row(you).locator(".badge")).to_have_text("2")
    await ann.open(conversation)
    await ann.page.get_by_label("Conversation menu").click()
    await ann.page.get_by_role("menuitem", name="Mute …").click()
    await ann.page.get_by_role("menuitem", name="Until I turn it on again").click()
    await expect(ann.row(you).get_by_text("Muted")).to_be_attached()
    await ann.page.reload()
    await expect(ann.row(you).get_by_text("Muted")).to_be_attached()


async def test_search_finds_marks_and_steps_through_loaded_messages(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(
        you, conversation, "The Needle is here", *(f"hay {number}" for number in range(45)), "a needle again"
    )
    ann = await (await people(me)).open(conversation)
    await ann.page.get_by_label("Search messages").click()
    await ann.page.get_by_label("Search in this conversation").fill("needle")
    await expect(ann.page.locator(".find output")).to_have_text("1 of 2")
    await expect(ann.page.locator("mark")).to_have_text("needle")
    await ann.page.keyboard.press("Enter")
    await expect(ann.page.locator(".find output")).to_have_text("2 of 2")
    await expect(ann.page.locator("mark")).to_have_text("Needle")
    await ann.sees("The Needle is here")
    await ann.dismiss(".find")
    await expect(ann.page.locator("mark")).to_have_count(0)
