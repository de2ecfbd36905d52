"""Texts that have moved to the cold tier read like any others; what is lost there is not called deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import Browser, expect

from tests.browser.conftest import LIMITS
from tests.browser.test_reading import READ_UP
from tests.support.browser.people import People
from tests.support.browser.seeding import Seeds
from tests.support.nodes.node_process import NodeProcess

Named = Callable[[str], str]
COUNT = 160


async def test_history_scrolls_into_the_cold_tier_and_says_what_cannot_be_read(
    browser: Browser, tmp_path: Path, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    env = {**LIMITS, "TIDINGS_ARCHIVE_AFTER_DAYS": "0"}
    with NodeProcess(tmp_path / "data", env, ["--dev"]) as node:
        await asyncio.to_thread(node.start)
        people = People(browser, node)
        async with Seeds(node) as seeds:
            conversation = await seeds.direct(you, me)
            texts = [f"line {number}" + " of several words" * (number % 7) for number in range(COUNT)]
            await seeds.say(you, conversation, *texts)
        done = await asyncio.to_thread(node.tidings, "archive", "run")
        assert done.returncode == 0, done.stderr
        segments = [file for file in (tmp_path / "data" / "blobs").rglob("*") if file.is_file()]
        assert segments, "the texts are in the cold tier"
        ann = await (await people(me)).open(conversation)
        await ann.sees(texts[-1])
        jumped = await ann.page.evaluate(READ_UP)
        assert jumped["seen"] == COUNT and jumped["worst_px"] <= 1.5, jumped
        await ann.sees("line 0")
        node.stop()  # it keeps segments that it has read
        for segment in segments:
            segment.unlink()
        await asyncio.to_thread(node.start)
        bob = await (await people(you)).open(conversation)
        await expect(bob.page.locator(".text").last).to_have_text("This message cannot be read at the moment")
        assert await people.close() == []
