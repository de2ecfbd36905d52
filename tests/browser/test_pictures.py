"""The pictures of the page in docs/pictures: drawn by every run, kept there only by `PICTURES=1`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser.people import STILL, People, Person
from tests.browser.seeding import Seeds

KEPT = Path(__file__).resolve().parents[2] / "docs" / "pictures"
PICTURE_BYTES_MAX = 200_000
PHONE: dict[str, Any] = {
    "viewport": {"width": 360, "height": 740},
    "device_scale_factor": 2,
    "has_touch": True,
    "is_mobile": True,
}

TALK = [
    ("Ben", "Morning! Did last night's numbers come through?"),
    ("Ann", "They did, all of them.\nI have checked them twice."),
    ("Ann", "The whole report: https://example.com/nightly"),
    ("Carla", "Lovely. I put it on the agenda for three o'clock"),
    ("Elif", "هل يمكنني الانضمام عن بعد؟"),
    ("Ann", "Of course, the link is in the invitation"),
    ("Ann", "🎉"),
    ("Carla", "Can somebody bring the cable for the projector? The one in the room only fits the old laptop."),
    ("Ben", "I have one in my bag"),
]
NAMES = {
    "Ann": "Ann",
    "Ben": "Ben",
    "Carla": "Carla",
    "Dana": "Dana",
    "Elif": "Elif",
    "Farid": "Farid",
    "Grace": "Grace",
    "Hugo": "Hugo",
    "Ines": "Ines",
}
READ_SEQ = 7  # what comes after it is new to Ann


async def scene(seeds: Seeds) -> str:
    """An inbox as people have it, with the conversation to open."""
    for user_id, name in NAMES.items():
        await seeds.introduce(user_id, name)
    for other, texts in (
        ("Farid", ["The photos from Saturday are up", "Have a look", "and tell me which one to print"]),
        ("Grace", ["Train is at 7:14, platform 4"]),
    ):
        await seeds.say(other, await seeds.direct(other, "Ann"), *texts)
    walkers = await seeds.create("Hugo", "group", ["Ann", "Ines"], "Sunday walkers")
    await seeds.say("Hugo", walkers, *(f"Stage {number} is marked on the map" for number in range(1, 13)))
    news = await seeds.create("Ines", "channel", ["Ann"], "announcements")
    await seeds.say("Ines", news, "The office is closed on Friday")
    direct = await seeds.direct("Dana", "Ann")
    await seeds.say("Dana", direct, "See you at the station")
    talk = await seeds.create("Ben", "group", ["Ann", "Carla", "Elif"], "Launch week")
    for sender, text in TALK:
        await seeds.say(sender, talk, text)
    for reader, seq in (("Ben", len(TALK)), ("Carla", len(TALK)), ("Elif", len(TALK)), ("Ann", READ_SEQ)):
        await (await seeds.client(reader)).request("message.read", conversation_id=talk, up_to_seq=seq)
    return talk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return KEPT if os.environ.get("PICTURES") else tmp_path


async def picture(person: Person, file: Path) -> None:
    await person.until(STILL)
    drawn = await person.page.screenshot(path=file)
    assert 10_000 < len(drawn) < PICTURE_BYTES_MAX


async def test_the_page_is_drawn_on_a_desktop_in_the_dark_and_on_a_phone(
    people: People, seeds: Seeds, folder: Path
) -> None:
    talk = await scene(seeds)
    ann = await people("Ann", viewport={"width": 1180, "height": 740})
    await expect(ann.row("Sunday walkers").locator(".badge")).to_have_text("12")
    await ann.open(talk)
    await ann.sees_tick("🎉", "read")
    await expect(ann.page.locator(".unread-line")).to_have_text("2 new messages")
    typist = await seeds.client("Ben")
    await typist.request("typing", conversation_id=talk, typing=True)
    await expect(ann.page.locator(".typing")).to_contain_text("Ben is typing")
    await picture(ann, folder / "page-desktop.png")
    await ann.page.emulate_media(color_scheme="dark")
    await picture(ann, folder / "page-dark.png")
    phone = await people("Ann", **PHONE)
    await phone.open(talk)
    await phone.sees_tick("🎉", "read")
    await picture(phone, folder / "page-phone.png")
