"""axe finds nothing on any screen, in light and in dark, on a desktop and on a phone, and nothing is too wide.

Other tests look at their own screens with `findings`.
"""

from __future__ import annotations

from collections.abc import Callable

from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import FilePayload, expect

from tests.support.browser.people import STILL, People, Person
from tests.support.browser.pictures import sunset
from tests.support.browser.seeding import Seeds
from tidings_proof.world.proxy import open_proxy

Named = Callable[[str], str]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOURS = ["color-contrast"]  # all that is different in the dark
# What is wider than its place: the reader would have to scroll to the side.
TOO_WIDE = """() => [...document.querySelectorAll(
  'html, dialog[open], .dialog-body, .menu, .emoji-picker, .inbox, .thread-view, .below, .side')]
  .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)
  .map((one) => `${one.tagName}.${one.className}: ${one.scrollWidth} px in ${one.clientWidth}`)"""
RUN = "options => axe.run(document, options).then(found => found.violations)"


PHONE_WIDTH = 360


async def findings(person: Person, screen: str) -> list[str]:
    """What axe says of this screen, light and dark, as wide as it is and as wide as a phone."""
    found = await looked_at(person, screen)
    size = person.page.viewport_size
    if size is None or size["width"] <= PHONE_WIDTH:
        return found
    await person.page.set_viewport_size({"width": PHONE_WIDTH, "height": 740})
    await person.frames()
    found += await looked_at(person, f"{screen}, on a phone")
    await person.page.set_viewport_size(size)
    await person.frames()
    return found


async def looked_at(person: Person, screen: str) -> list[str]:
    """What axe says now, light and dark. Fading is let end: half-faded text has no contrast."""
    found: list[str] = []
    if not await person.page.evaluate("() => 'axe' in window"):
        await person.page.evaluate(AXE_SCRIPT)
    for scheme, rules in (("dark", COLOURS), ("light", RULES)):
        await person.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        await person.until(STILL)
        violations = await person.page.evaluate(RUN, {"runOnly": rules, "resultTypes": ["violations"]})
        found += [
            f"{screen}, {scheme}: {one['id']}: {node['target']} {node['failureSummary']}"
            for one in violations
            for node in one["nodes"]
        ]
    found += [f"{screen}: too wide: {one}" for one in await person.page.evaluate(TOO_WIDE)]
    return found


async def test_axe_finds_nothing_on_any_screen(people: People, seeds: Seeds, named: Named) -> None:
    me, you, third = named("ann"), named("bob"), named("cleo")
    guest = await people(me, is_in=False)
    await guest.page.goto(guest.url)
    await guest.page.wait_for_selector("#name")
    found = await findings(guest, "sign-in")
    ann = await people(me)
    found += await findings(ann, "empty inbox")
    group = await seeds.create(you, "group", [me, third], "three of us")
    direct = await seeds.direct(third, me)
    await seeds.say(third, direct, "hello", "שלום")
    await expect(ann.row(third)).to_be_visible()
    found += await findings(ann, "inbox")
    await ann.open(group)
    await seeds.say(you, group, "a long line with ticks: " + "and more and more " * 20)
    await seeds.say(you, group, "see https://example.com/", "and **this**\n> quoted\n- a `b`\n```\ncode\n```")
    await ann.send("mine, with ticks")
    await ann.sees_tick("mine, with ticks", "sent")
    found += await findings(ann, "conversation")
    await ann.page.locator(".message").last.hover()
    await ann.page.locator(".message").last.get_by_label("Message menu").click()
    found += await findings(ann, "menu of a message")
    await ann.dismiss()
    await ann.page.get_by_label("Emoji", exact=True).click()
    found += await findings(ann, "emoji")
    await ann.dismiss()
    await ann.page.keyboard.press("Control+k")
    found += await findings(ann, "search for everything")
    await ann.dismiss()
    await ann.page.get_by_label("Your account").click()
    await ann.page.get_by_role("menuitem", name="Preferences").click()
    await ann.page.get_by_label("Who may write to you").wait_for()
    found += await findings(ann, "preferences")
    await ann.dismiss()
    found += await menus_and_dialogs(ann)
    found += await files_and_answers(ann)
    found += await polls_voice_and_forwarding(ann)
    found += await a_broken_network(people, me, group)
    found += await nothing_there(people, me)
    found += await a_phone(people, me, direct)
    assert found == []


async def menus_and_dialogs(ann: Person) -> list[str]:
    found: list[str] = []
    for label in ("Conversation menu", "Your account"):
        await ann.page.get_by_label(label).click()
        await ann.page.wait_for_selector(".menu:popover-open")
        found += await findings(ann, label)
        await ann.dismiss()
    await ann.page.locator(".thread-who").click()
    await expect(ann.page.get_by_role("dialog").locator(".person")).to_have_count(3)
    found += await findings(ann, "members")
    await ann.dismiss()
    await ann.message("mine, with ticks").locator("button.ticks").click()
    await expect(ann.page.get_by_role("dialog").locator(".person")).to_have_count(2)
    found += await findings(ann, "receipts")
    await ann.dismiss()
    await ann.page.get_by_label("New conversation").first.click()
    await ann.page.get_by_role("dialog").get_by_text("Group").click()
    found += await findings(ann, "new conversation")
    await ann.dismiss()
    await ann.page.get_by_label("Search messages").click()
    await ann.page.get_by_label("Search in this conversation").fill("this")
    await expect(ann.page.locator("mark")).to_be_visible()
    return found + await findings(ann, "search")


async def files_and_answers(ann: Person) -> list[str]:
    """A file that waits, its picture over the whole page, an answer, what a search found, and the own profile."""
    picture: FilePayload = {"name": "sea.png", "mimeType": "image/png", "buffer": sunset(96, 54)}
    await ann.dismiss(".find")
    await ann.page.locator('.thread-open input[type="file"]').set_input_files(picture)
    await ann.message("mine, with ticks").hover()
    await ann.message("mine, with ticks").get_by_label("Reply", exact=True).click()
    await expect(ann.page.locator(".attachments li")).to_be_visible()
    found = await findings(ann, "an answer with a file")
    await ann.send("the sea")
    await ann.page.locator(".picture").click()
    await expect(ann.page.get_by_role("dialog").locator("img")).to_be_visible()
    found += await findings(ann, "a picture over the whole page")
    await ann.dismiss()
    await ann.page.keyboard.press("Control+k")
    await ann.page.keyboard.type("ticks")
    await expect(ann.page.locator(".quick-row .hit")).to_have_count(2)
    found += await findings(ann, "messages that were found")
    await ann.dismiss()
    await ann.page.get_by_label("Your account").click()
    await ann.page.get_by_role("menuitem", name="Your profile").click()
    await ann.page.locator("#profile-name").wait_for()
    found += await findings(ann, "profile")
    await ann.dismiss()
    return found


async def polls_voice_and_forwarding(ann: Person) -> list[str]:
    page = ann.page
    await page.get_by_label("Attach a file").first.click()
    found = await findings(ann, "what can be attached")
    await page.get_by_role("menuitem", name="Poll").click()
    await page.get_by_label("Question").fill("When?")
    await page.get_by_label("Option 1").fill("Now")
    await page.get_by_label("Option 2").fill("Later")
    found += await findings(ann, "a new poll")
    await page.get_by_role("dialog").get_by_role("button", name="Send").click()
    await page.locator(".poll-option").first.click()
    await expect(page.locator(".poll-option").first).to_have_attribute("aria-pressed", "true")
    found += await findings(ann, "a poll")
    await page.get_by_label("Record a voice message").click()
    await expect(page.get_by_role("timer")).to_be_visible()
    found += await findings(ann, "a recording")
    await page.get_by_label("Send the voice message").click()
    await expect(page.locator('.message:has(.sound) [data-state="sent"]')).to_be_visible()
    found += await findings(ann, "a voice message")
    await page.locator(".message").last.hover()
    await page.locator(".message").last.get_by_label("Message menu").click()
    await page.get_by_role("menuitem", name="Forward").click()
    await page.get_by_role("dialog").get_by_role("checkbox").first.check()
    found += await findings(ann, "forward")
    await page.get_by_role("dialog").get_by_role("button", name="Forward").click()
    await expect(page.locator(".forwarded")).to_be_visible()
    return found + await findings(ann, "a forwarded message")


async def a_broken_network(people: People, user_id: str, conversation: str) -> list[str]:
    async with open_proxy(people.node.port) as network:
        ann = await (await people(user_id, port=network.port)).open(conversation)
        field = ann.page.get_by_role("textbox", name="Message", exact=True)
        await field.evaluate("el => { el.value = 'z '.repeat(8200) + 'z' }")
        await field.press("Enter")
        await expect(ann.page.locator(".is-failed")).to_be_visible()
        await network.cut()
        await ann.send("waits")
        await expect(ann.page.locator(".banner")).to_contain_text("1 message waits")
        return await findings(ann, "offline, with a failed message")


async def nothing_there(people: People, user_id: str) -> list[str]:
    ann = await people(user_id)
    await ann.page.evaluate("location.hash = '#/c/no-such-conversation'")
    await ann.page.wait_for_selector(".thread-missing:not([hidden])")
    await ann.page.get_by_label("Your account").click()
    await ann.page.get_by_role("menuitem", name="Archived conversations").click()
    await ann.page.wait_for_selector(".archive-empty:not([hidden])")
    return await findings(ann, "no such conversation, nothing archived")


async def a_phone(people: People, user_id: str, conversation: str) -> list[str]:
    ann = await people(user_id, viewport={"width": 360, "height": 740})
    found = await findings(ann, "inbox on a phone")
    await ann.open(conversation)
    return found + await findings(ann, "conversation on a phone")
