"""Nothing the page draws by itself takes the reader's own scrolling back, however the two meet.

A browser tells of a scroll a frame after it. Whatever is drawn in between (a message, a receipt, an answer, a composer
that grows) must begin from where the reader is by now, and not from what the list last heard of.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.async_api import expect

from tests.support.browser.answers import Answers
from tests.support.browser.people import People, Person
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]

# What draws before the event of a scroll: the whole conversation at once, or the list when its view has another size.
DRAWS = {
    "a redraw": "document.dispatchEvent(new Event('visibilitychange'))",
    "a composer that grows": "const { style } = document.querySelector('.composer');"
    " style.paddingBlockEnd = `${(parseInt(style.paddingBlockEnd) || 0) + 60}px`",
}

SCROLL_AND_DRAW = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  await frame();  // in a frame, as the browser measures sizes at its end and tells of the scroll in the next
  document.querySelector('.thread-view').scrollTop -= 300;
  %s;
  for (let frames = 0; frames < 4; frames += 1) await frame();
}"""

# The row at the top of the view with its distance from it, and what is left to the end.
PLACE = """() => {
  const view = document.querySelector('.thread-view');
  const { top } = view.getBoundingClientRect();
  const row = [...document.querySelectorAll('.message')].find((el) => el.getBoundingClientRect().bottom > top + 1);
  const rest = view.scrollHeight - view.clientHeight - view.scrollTop;
  return [Number(row.dataset.seq), row.getBoundingClientRect().top - top, rest];
}"""
IS_AT_END = f"() => ({PLACE})()[2] < 1"


async def reading(people: People, seeds: Seeds, named: Named) -> Person:
    """Ann, at the end of a conversation."""
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    texts = [f"line {number}" + " of several words" * (number % 7) for number in range(160)]
    await seeds.say(you, conversation, *texts)
    ann = await (await people(me)).open(conversation)
    await ann.sees(texts[-1])
    await expect(ann.row(you).locator(".badge")).to_have_count(0)
    await ann.frames()
    return ann


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
async def test_what_is_drawn_before_the_event_of_a_scroll_begins_from_where_the_reader_is(
    people: People, seeds: Seeds, named: Named, draw: str
) -> None:
    ann = await reading(people, seeds, named)
    for _ in ("from the end", "further up"):
        await ann.look()
        await ann.page.evaluate(SCROLL_AND_DRAW % draw)
        assert abs(await ann.moved_px() - 300) <= 1.5


async def test_small_steps_of_a_wheel_leave_the_end(people: People, seeds: Seeds, named: Named) -> None:
    ann = await reading(people, seeds, named)
    top = await ann.page.eval_on_selector(".thread-view", "el => el.scrollTop")
    await ann.page.locator(".thread-view").hover()
    for _ in range(12):
        await ann.page.mouse.wheel(0, -5)
        await ann.frames()
    await ann.until("top => document.querySelector('.thread-view').scrollTop <= top - 59", top)


async def test_a_little_above_the_end_stays_there_until_a_message_comes(
    people: People, seeds: Seeds, named: Named
) -> None:
    ann = await reading(people, seeds, named)
    conversation = await seeds.direct(named("bob"), named("ann"))
    await ann.look()
    await ann.page.eval_on_selector(".thread-view", "el => { el.scrollTop -= 10 }")
    await ann.frames()
    assert abs(await ann.moved_px() - 10) <= 1.5
    await seeds.say(named("bob"), conversation, "one more")
    await ann.sees("one more")
    await ann.until(IS_AT_END)


async def test_at_the_end_of_what_is_loaded_newer_messages_come_in_below_what_one_reads(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, *(f"line {number}" for number in range(300)))
    ann, answers = await people(me, is_in=False), Answers()
    await answers.join(ann.page)
    await (await ann.enter(people.node.token(me))).open(conversation, at_end=False)
    await ann.sees("line 0")
    answers.hold()
    await ann.page.eval_on_selector(".thread-view", "el => { el.scrollTop = el.scrollHeight }")
    await ann.frames()
    await ann.until(IS_AT_END)
    await ann.look()
    answers.release()
    await ann.until(f"() => !({IS_AT_END})()")
    await ann.frames()
    assert abs(await ann.moved_px()) <= 1.5


@pytest.mark.parametrize("above_px", [800, 950])
async def test_a_wider_window_and_back_keep_what_one_reads(
    people: People, seeds: Seeds, named: Named, above_px: int
) -> None:
    """Lines that wrap no more make the conversation so short that the browser moves the view by itself."""
    ann = await reading(people, seeds, named)
    await ann.page.set_viewport_size({"width": 700, "height": 760})
    await ann.until(IS_AT_END)
    await ann.page.eval_on_selector(".thread-view", "(el, px) => { el.scrollTop -= px }", above_px)
    await ann.frames()
    before, _, _ = await ann.page.evaluate(PLACE)
    for width in (1180, 700):
        await ann.page.set_viewport_size({"width": width, "height": 760})
        await ann.until("width => innerWidth === width", width)
        await ann.frames()
        after, _, _ = await ann.page.evaluate(PLACE)
        assert before <= after <= before + 1  # the first one is cut by the edge, and may be out of view altogether


async def test_a_conversation_out_of_sight_for_a_while_comes_back_at_its_place(
    people: People, seeds: Seeds, named: Named
) -> None:
    ann = await reading(people, seeds, named)
    await ann.page.set_viewport_size({"width": 500, "height": 760})
    await ann.until(IS_AT_END)
    await away(ann, seeds, named, "while at the end")
    await ann.until(IS_AT_END)
    await ann.sees("while at the end")
    await ann.page.eval_on_selector(".thread-view", "el => { el.scrollTop -= 900 }")
    await ann.frames()
    before = await ann.page.evaluate(PLACE)
    await away(ann, seeds, named, "while reading above")
    after = await ann.page.evaluate(PLACE)
    assert before[0] == after[0] and abs(before[1] - after[1]) <= 1.5, (before, after)


async def away(ann: Person, seeds: Seeds, named: Named, text: str) -> None:
    """A narrow window shows one pane at a time; a message comes while it is the inbox."""
    await ann.page.eval_on_selector(".shell", "el => { el.dataset.pane = 'inbox' }")
    await seeds.say(named("bob"), await seeds.direct(named("bob"), named("ann")), text)
    await expect(ann.row(named("bob"))).to_contain_text(text)
    await ann.frames()
    await ann.page.eval_on_selector(".shell", "el => { el.dataset.pane = 'thread' }")
    await ann.frames()
