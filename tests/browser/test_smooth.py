"""Long lists stay smooth: the DOM is bounded, and the browser itself reports every task that kept it from drawing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from playwright.async_api import expect

from tests.browser.people import People, Person
from tests.browser.seeding import Seeds

Named = Callable[[str], str]
DRAWN_MAX = 120
TASK_MS_MAX = 100  # what a reader notices
BUSY_TASK_MS_MAX = 250  # the same where other tests keep both cores busy: enough to catch a list that is drawn whole

OBSERVE = """() => {
  window.longTasks = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longTasks.push(Math.round(entry.duration));
  }).observe({ type: 'longtask' });
}"""

# Turns the wheel upward (or downward) until `until` rows were met or nothing new comes.
WHEEL = """async ([selector, row, way, until]) => {
  const view = document.querySelector(selector);
  const frame = () => new Promise(requestAnimationFrame);
  const met = new Set();
  let most = 0;
  for (let quiet = 0; met.size < until && quiet < 400;) {
    const before = met.size;
    view.scrollTop += way * 600;
    await frame(); await frame();
    const drawn = view.querySelectorAll(row);
    most = Math.max(most, drawn.length);
    for (const one of drawn) met.add(one.dataset.seq ?? one.dataset.id);
    quiet = met.size === before ? quiet + 1 : 0;
  }
  return { met: met.size, most };
}"""


async def tasks_of(person: Person) -> list[int]:
    tasks: list[int] = await person.page.evaluate("() => window.longTasks.splice(0)")
    return tasks


async def scroll_and_type(people: People, seeds: Seeds, named: Named, count: int, task_ms_max: int) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    texts = [f"message {number}: " + "some words that wrap " * (number % 9) for number in range(count)]
    await seeds.say(you, conversation, *(text.strip() for text in texts))
    ann = await (await people(me)).open(conversation)
    await ann.sees(texts[-1].strip())
    await ann.page.evaluate(OBSERVE)
    walked = await ann.page.evaluate(WHEEL, [".thread-view", ".message", -1, count])
    scrolling = await tasks_of(ann)
    assert walked["met"] == count and walked["most"] < DRAWN_MAX, walked
    await ann.page.get_by_label("Message", exact=True).press_sequentially("typing on top of it all", delay=20)
    await ann.page.get_by_label("Message", exact=True).press("Enter")
    await ann.sees_tick("typing on top of it all", "sent")
    typing = await tasks_of(ann)
    assert max([*scrolling, *typing], default=0) <= task_ms_max, (scrolling, typing)


async def scroll_the_inbox(people: People, seeds: Seeds, named: Named, count: int, task_ms_max: int) -> None:
    me = named("ann")
    for start in range(0, count, 20):
        numbers = range(start, min(start + 20, count))
        await asyncio.gather(*(seeds.create(me, "group", [named("bob")], f"group {number}") for number in numbers))
    ann = await people(me)
    await ann.page.evaluate(OBSERVE)
    walked = await ann.page.evaluate(WHEEL, [".inbox-view", ".row", 1, count])
    assert walked["met"] == count and walked["most"] < DRAWN_MAX, walked
    newest = await seeds.direct(named("cleo"), me)
    await seeds.say(named("cleo"), newest, "up to the top")
    await ann.page.eval_on_selector(".inbox-view", "el => { el.scrollTop = 0 }")
    await expect(ann.row(named("cleo"))).to_be_visible()
    tasks = await tasks_of(ann)
    assert max(tasks, default=0) <= task_ms_max, tasks


async def test_a_long_conversation_scrolls_with_a_bounded_dom(people: People, seeds: Seeds, named: Named) -> None:
    await scroll_and_type(people, seeds, named, 300, BUSY_TASK_MS_MAX)


async def test_a_long_inbox_scrolls_with_a_bounded_dom(people: People, seeds: Seeds, named: Named) -> None:
    await scroll_the_inbox(people, seeds, named, 80, BUSY_TASK_MS_MAX)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_ten_thousand_messages_scroll_without_a_long_task(people: People, seeds: Seeds, named: Named) -> None:
    await scroll_and_type(people, seeds, named, 10_000, TASK_MS_MAX)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_five_thousand_conversations_scroll_without_a_long_task(
    people: People, seeds: Seeds, named: Named
) -> None:
    await scroll_the_inbox(people, seeds, named, 5_000, TASK_MS_MAX)
