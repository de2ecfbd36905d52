"""A node goes away under a conversation and comes back: nothing is lost, doubled or reordered on any screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import Browser

from tests.browser.conftest import LIMITS
from tests.support.browser.people import People, Person
from tests.support.browser.seeding import Seeds
from tests.support.nodes.node_process import NodeProcess

Named = Callable[[str], str]


async def say_all(person: Person, texts: list[str]) -> None:
    for text in texts:
        await person.send(text)


async def test_a_node_is_drained_under_a_conversation(browser: Browser, tmp_path: Path, named: Named) -> None:
    me, you = named("ann"), named("bob")
    with NodeProcess(tmp_path / "data", LIMITS, ["--dev"]) as node:
        node.start()
        people = People(browser, node)
        async with Seeds(node) as seeds:
            conversation = await seeds.direct(me, you)
        ann, bob = await (await people(me)).open(conversation), await (await people(you)).open(conversation)
        parts = [[f"{name} {number}" for number in range(10)] for name in ("before", "during", "after")]
        mine = [f"ann {text}" for part in parts for text in part]
        yours = [f"bob {text}" for part in parts for text in part]
        await asyncio.gather(say_all(ann, mine[:10]), say_all(bob, yours[:10]))
        node.terminate()
        await asyncio.gather(say_all(ann, mine[10:20]), say_all(bob, yours[10:20]))
        assert await asyncio.to_thread(node.ended) == 0, node.said()
        await asyncio.to_thread(node.start)
        await asyncio.gather(say_all(ann, mine[20:]), say_all(bob, yours[20:]))
        for person in (ann, bob):
            await person.until("() => !document.querySelector('[data-state=\"sending\"]')")
        for person, last in ((ann, yours[-1]), (bob, mine[-1])):
            await person.page.keyboard.press("End")
            await person.sees(last)
        log = await Seeds(node).log_of(me, conversation)
        assert [text for text in log if text.startswith("ann")] == mine
        assert [text for text in log if text.startswith("bob")] == yours
        for person in (ann, bob):
            assert await whole(person) == log
        assert await people.close() == []


async def whole(person: Person) -> list[str]:
    """Everything on the screen, from the oldest message down, in the order in which one meets it."""
    texts: list[str] = await person.page.evaluate(
        """async () => {
          const view = document.querySelector('.thread-view');
          const frame = () => new Promise(requestAnimationFrame);
          const rows = new Map();
          while (!document.querySelector('.start-line')) {
            view.scrollTop = 0;
            await frame();
          }
          view.scrollTop = 0;
          for (let at = -1; at !== view.scrollTop;) {
            at = view.scrollTop;
            await frame(); await frame();
            for (const row of document.querySelectorAll('.message')) {
              rows.set(row.dataset.key, row.querySelector('.text').textContent);
            }
            view.scrollTop += 400;
            await frame(); await frame();
          }
          return [...rows.values()];
        }"""
    )
    return texts
