"""The pictures of the page in docs/pictures: drawn by every run, kept there only by `PICTURES=1`."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, expect

from tests.browser.conftest import LIMITS
from tests.support.browser.people import TYPING, People
from tests.support.browser.pictures import picture
from tests.support.browser.seeding import Seeds
from tests.support.nodes.node_process import NodeProcess
from tidings.stores.keyspace.embedded_folder import FOLDER_NAME

PHONE: dict[str, Any] = {
    "viewport": {"width": 360, "height": 740},
    "device_scale_factor": 2,
    "has_touch": True,
    "is_mobile": True,
}

TALK = [
    ("Ben", "Morning! Did last night's numbers come through?"),
    ("Ann", "They did, **all of them**. I checked them twice:\n```\nrows 48 210   missing 0   twice 0\n```"),
    ("Ann", "The whole report: https://example.com/nightly"),
    ("Carla", "Lovely. I put it on the agenda for three o'clock"),
    ("Elif", "هل يمكنني الانضمام عن بعد؟"),
    ("Ann", "Of course, the link is in the invitation"),
    ("Ann", "🎉"),
    ("Carla", "Can somebody bring the cable for the projector? The one in the room only fits the old laptop."),
    ("Ben", "I have one in my bag"),
]
READ_SEQ = 7  # what comes after it is new to Ann


# How long ago: the last message of each conversation, and the way from one to the next. In minutes.
AGES_MIN = {
    "talk": (2, 4),
    "dana": (38, 0),
    "walkers": (95, 4),
    "news": (60 * 22, 0),
    "grace": (60 * 30, 0),
    "farid": (60 * 76, 2),
}


async def scene(seeds: Seeds) -> dict[str, str]:
    """An inbox as people have it; its conversations by what they are called here."""
    made = {
        "farid": await seeds.direct("Farid", "Ann"),
        "grace": await seeds.direct("Grace", "Ann"),
        "news": await seeds.create("Ines", "channel", ["Ann"], "announcements"),
        "walkers": await seeds.create("Hugo", "group", ["Ann", "Ines"], "Sunday walkers"),
        "dana": await seeds.direct("Dana", "Ann"),
        "talk": await seeds.create("Ben", "group", ["Ann", "Carla", "Elif"], "Launch week"),
    }
    photos = ("The photos from Saturday are up", "Have a look", "and tell me which one to print")
    await seeds.say("Farid", made["farid"], *photos)
    await seeds.say("Grace", made["grace"], "Train is at 7:14, platform 4")
    await seeds.say("Hugo", made["walkers"], *(f"Stage {number} is marked on the map" for number in range(1, 13)))
    await seeds.say("Ines", made["news"], "The office is closed on Friday")
    await seeds.say("Dana", made["dana"], "See you at the station")
    for seq, (sender, text) in enumerate(TALK, 1):
        answers = {"reply_to": seq - 1} if seq == len(TALK) else {}
        said = {"conversation_id": made["talk"], "message_id": f"t{seq}", "text": text, **answers}
        await (await seeds.client(sender)).request("message.send", **said)
    for reader, seq in (("Ben", len(TALK)), ("Carla", len(TALK)), ("Elif", len(TALK)), ("Ann", READ_SEQ)):
        await (await seeds.client(reader)).request("message.read", conversation_id=made["talk"], up_to_seq=seq)
    return made


def age(data: Path, made: dict[str, str]) -> None:
    """What was said just now becomes what was said today and in the days before. The node is down, and builds its
    index from the tables when it is up again."""
    shutil.rmtree(data / FOLDER_NAME)
    with closing(sqlite3.connect(data / "tidings.db")) as tables, tables:
        for table, column in (("members", "joined_ms"), ("conversations", "joined_ms")):
            tables.execute(f"UPDATE {table} SET {column} = {column} - 864000000")
        for name, (last_min, step_min) in AGES_MIN.items():
            tables.execute(
                "UPDATE messages SET sent_ms = sent_ms - 60000 * (:last + :step * ((SELECT head FROM conversation_heads"
                " WHERE conversation_id = :id) - seq_no)) WHERE conversation_id = :id",
                {"last": last_min, "step": step_min, "id": made[name]},
            )
            newest = "(SELECT max(sent_ms) FROM messages WHERE conversation_id = :id)"
            for table, column in (("conversation_heads", "last_ms"), ("conversations", "last_message_ts")):
                tables.execute(
                    f"UPDATE {table} SET {column} = {newest} WHERE conversation_id = :id", {"id": made[name]}
                )


@asynccontextmanager
async def aged(node: NodeProcess) -> AsyncIterator[tuple[Seeds, str]]:
    await asyncio.to_thread(node.start)
    async with Seeds(node) as seeds:
        made = await scene(seeds)
    await asyncio.to_thread(node.stop)
    age(node.data, made)
    await asyncio.to_thread(node.start)
    async with Seeds(node) as seeds:
        yield seeds, made["talk"]


async def test_the_page_is_drawn_on_a_desktop_in_the_dark_and_on_a_phone(
    browser: Browser, tmp_path: Path, folder: Path
) -> None:
    with NodeProcess(tmp_path / "data", LIMITS, ["--dev"]) as node:
        async with aged(node) as (seeds, talk):
            people = People(browser, node)
            await draw(people, seeds, talk, folder)
            assert await people.close() == []


async def draw(people: People, seeds: Seeds, talk: str, folder: Path) -> None:
    ann = await people("Ann", viewport={"width": 1180, "height": 740})
    await expect(ann.row("Sunday walkers").locator(".badge")).to_have_text("12")
    await ann.open(talk)
    await ann.sees_tick("🎉", "read")
    await expect(ann.page.locator(".unread-line")).to_have_text("2 new messages")
    typist = await seeds.client("Ben")
    async with ann.noticing(TYPING, "Ben is typing"):
        await typist.request("typing", conversation_id=talk, typing=True)
    await picture(ann, folder / "page-desktop.png")
    await ann.page.emulate_media(color_scheme="dark")
    await picture(ann, folder / "page-dark.png")
    phone = await people("Ann", **PHONE)
    await phone.open(talk)
    await phone.sees_tick("🎉", "read")
    await picture(phone, folder / "page-phone.png")
