"""Fingers on messages: a long press opens the sheet of a message, a swipe answers it, a scroll does neither."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from playwright.async_api import CDPSession, expect

from tests.browser.test_access import findings
from tests.browser.test_pictures import PHONE
from tests.support.browser.people import STILL, People, Person
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]


class Finger:
    def __init__(self, session: CDPSession, x: float, y: float) -> None:
        self._session = session
        self._x, self._y = x, y

    async def down(self) -> None:
        await self._touch("touchStart", [{"x": self._x, "y": self._y}])

    async def swipe(self, dx: float, dy: float, steps: int = 6) -> None:
        """All at once: a finger that waits for an answer after each step would rest, which is a long press."""
        parts = [step / steps for step in range(steps + 1)]
        points = [[{"x": self._x + dx * part, "y": self._y + dy * part}] for part in parts]
        moves = [self._touch("touchMove", point) for point in points[1:]]
        await asyncio.gather(self._touch("touchStart", points[0]), *moves, self._touch("touchEnd", []))

    async def up(self) -> None:
        await self._touch("touchEnd", [])

    async def _touch(self, kind: str, points: list[dict[str, float]]) -> None:
        await self._session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


async def finger_on(person: Person, text: str) -> Finger:
    await person.page.evaluate("() => document.activeElement.blur()")
    box = await person.message(text).locator(".text").bounding_box()
    assert box is not None
    session = await person.context.new_cdp_session(person.page)
    return Finger(session, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


async def test_a_long_press_opens_the_sheet_and_a_swipe_answers(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, *(f"line {number}" for number in range(30)), "press me")
    ann = await (await people(me, **PHONE)).open(conversation)
    sheet = ann.page.locator(".menu:popover-open")
    finger = await finger_on(ann, "press me")
    await finger.down()
    await expect(sheet).to_be_visible()
    await finger.up()
    await ann.frames()
    await expect(sheet).to_be_visible()
    await ann.until(STILL)  # the sheet rises as it opens
    box, view = await sheet.bounding_box(), ann.page.viewport_size
    assert box is not None and view is not None
    assert abs(box["y"] + box["height"] - view["height"]) < 2 and abs(box["width"] - view["width"]) < 2
    assert await findings(ann, "the sheet of a message") == []
    await sheet.get_by_label("React with 👍").tap()
    await expect(ann.message("press me").locator(".reaction")).to_have_text("👍1")
    await expect(sheet).to_have_count(0)

    finger = await finger_on(ann, "press me")
    await finger.swipe(-90, 4)
    await expect(ann.page.locator(".editing")).to_contain_text("press me")
    await expect(sheet).to_have_count(0)
    await ann.send("answered")
    await expect(ann.message("answered").locator(".quote")).to_contain_text("press me")

    finger = await finger_on(ann, "press me")
    await finger.swipe(6, 160)
    await ann.frames()
    await expect(sheet).to_have_count(0)
    await expect(ann.page.locator(".editing")).to_be_hidden()
