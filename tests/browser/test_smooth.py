"""Long lists stay smooth: the DOM is bounded, and so is the work of each frame, however long the list is.

The work of a frame is counted in rows that the page adds and removes. Milliseconds would measure the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from playwright.async_api import expect

from tests.support.browser.people import People, Person
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]
DRAWN_MAX = 120

# Counts the rows that come and go between two frames: a list that is drawn whole has all of its rows in one frame.
OBSERVE = """([selector, row]) => {
  window.rowsAFrame = 0;
  let rows = 0;
  const inside = (node) => node.matches ? node.matches(row) + node.querySelectorAll(row).length : 0;
  const rowsOf = (nodes) => [...nodes].reduce((sum, node) => sum + inside(node), 0);
  new MutationObserver((changes) => {
    for (const change of changes) rows += rowsOf(change.addedNodes) + rowsOf(change.removedNodes);
    window.rowsAFrame = Math.max(window.rowsAFrame, rows);
  }).observe(document.querySelector(selector), { childList: true, subtree: true });
  const frame = () => { rows = 0; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""

# Turns the wheel upward (or downward) until `until` rows were met.
WHEEL = """async ([selector, row, way, until]) => {
  const view = document.querySelector(selector);
  const frame = () => new Promise(requestAnimationFrame);
  const met = new Set();
  let most = 0;
  while (met.size < until) {
    view.scrollTop += way * 600;
    await frame(); await frame();
    const drawn = view.querySelectorAll(row);
    most = Math.max(most, drawn.length);
    for (const one of drawn) met.add(one.dataset.seq ?? one.dataset.id);
  }
  return { met: met.size, most };
}"""


async def rows_a_frame(person: Person) -> int:
    """The most rows that came and went in one frame."""
    rows: int = await person.page.evaluate("() => window.rowsAFrame")
    return rows


async def scroll_and_type(people: People, seeds: Seeds, named: Named, count: int) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    texts = [f"message {number}: " + "some words that wrap " * (number % 9) for number in range(count)]
    await seeds.say(you, conversation, *(text.strip() for text in texts))
    ann = await (await people(me)).open(conversation)
    await ann.sees(texts[-1].strip())
    await ann.page.evaluate(OBSERVE, [".thread-view", ".message"])
    walked = await ann.page.evaluate(WHEEL, [".thread-view", ".message", -1, count])
    assert walked["met"] == count and walked["most"] < DRAWN_MAX, walked
    await ann.page.get_by_role("textbox", name="Message", exact=True).press_sequentially(
        "typing on top of it all", delay=20
    )
    await ann.page.get_by_role("textbox", name="Message", exact=True).press("Enter")
    await ann.sees_tick("typing on top of it all", "sent")
    assert 0 < await rows_a_frame(ann) <= 2 * DRAWN_MAX  # at most, all that was drawn gives way to others


async def scroll_the_inbox(people: People, seeds: Seeds, named: Named, count: int) -> None:
    me = named("ann")
    for start in range(0, count, 20):
        numbers = range(start, min(start + 20, count))
        await asyncio.gather(*(seeds.create(me, "group", [named("bob")], f"group {number}") for number in numbers))
    ann = await people(me)
    await ann.page.evaluate(OBSERVE, [".inbox-view", ".row"])
    walked = await ann.page.evaluate(WHEEL, [".inbox-view", ".row", 1, count])
    assert walked["met"] == count and walked["most"] < DRAWN_MAX, walked
    newest = await seeds.direct(named("cleo"), me)
    await seeds.say(named("cleo"), newest, "up to the top")
    await ann.page.eval_on_selector(".inbox-view", "el => { el.scrollTop = 0 }")
    await expect(ann.row(named("cleo"))).to_be_visible()
    assert 0 < await rows_a_frame(ann) <= 2 * DRAWN_MAX


async def test_a_long_conversation_scrolls_with_a_bounded_dom(people: People, seeds: Seeds, named: Named) -> None:
    await scroll_and_type(people, seeds, named, 300)


async def test_a_long_inbox_scrolls_with_a_bounded_dom(people: People, seeds: Seeds, named: Named) -> None:
    await scroll_the_inbox(people, seeds, named, 300)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_ten_thousand_messages_scroll_with_bounded_work_a_frame(
    people: People, seeds: Seeds, named: Named
) -> None:
    await scroll_and_type(people, seeds, named, 10_000)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_five_thousand_conversations_scroll_with_bounded_work_a_frame(
    people: People, seeds: Seeds, named: Named
) -> None:
    await scroll_the_inbox(people, seeds, named, 5_000)
