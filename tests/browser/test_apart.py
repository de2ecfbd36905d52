"""When nobody looks: notifications that are asked for at the right time, and a page that opens without a connection."""

from __future__ import annotations

from collections.abc import Callable

from playwright.async_api import expect

from tests.support.browser.people import People, Person
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]
# A browser that grants what is asked for, keeps what is shown, and whose window has not the focus.
STAND_IN = """
  window.shown = [];
  window.Notification = class {
    static permission = 'default';
    static async requestPermission() { return (this.permission = 'granted'); }
    constructor(title, { body, tag }) { window.shown.push([title, body, tag]); }
    close() {}
  };
  document.hasFocus = () => false;
"""


async def unfocused(people: People, user_id: str) -> Person:
    person = await people(user_id, is_in=False)
    await person.page.add_init_script(STAND_IN)
    return await person.enter(people.node.token(user_id))


async def test_notifications_are_asked_for_after_an_answer_and_shown_where_nobody_looks(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation, other = await seeds.direct(you, me), await seeds.direct(named("cleo"), me)
    await seeds.say(you, conversation, "hello")
    ann = await unfocused(people, me)
    ask = ann.page.get_by_role("region", name="Notifications")
    await expect(ask).to_be_hidden()
    await ann.open(conversation)
    await ann.send("hello yourself")
    await ann.sees_tick("hello yourself", "sent")
    await expect(ask).to_be_hidden()
    await seeds.say(you, conversation, "an answer")
    await ask.get_by_role("button", name="Yes, notify me").click()
    await expect(ask).to_be_hidden()
    await ann.leave()
    await seeds.say(you, conversation, "are you **there**?")
    await ann.until("() => window.shown.length === 1")
    assert await ann.page.evaluate("window.shown[0]") == [you, "are you there?", conversation]
    await ann.open(conversation)
    await ann.page.get_by_label("Conversation menu").click()
    await ann.page.get_by_role("menuitem", name="Mute …").click()
    await ann.page.get_by_role("menuitem", name="Until I turn it on again").click()
    await expect(ann.row(you).get_by_text("Muted")).to_be_attached()
    await ann.leave()
    await seeds.say(you, conversation, "muted")
    await seeds.say(named("cleo"), other, "and I am not")
    await ann.until("() => window.shown.length === 2")
    assert await ann.page.evaluate("window.shown[1][1]") == "and I am not"


async def test_the_page_opens_without_a_connection_and_keeps_what_is_written(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "hello")
    ann = await (await people(me)).open(conversation)
    await ann.until("() => navigator.serviceWorker.controller !== null")
    await ann.until("async () => (await (await caches.open('tidings-page')).keys()).length >= 3")
    await ann.context.set_offline(True)
    await ann.page.reload()
    await expect(ann.page.locator(".banner")).to_contain_text("You are offline.")
    await ann.send("written without a connection")
    await ann.sees_tick("written without a connection", "sending")
    await ann.context.set_offline(False)
    await ann.sees_tick("written without a connection", "sent")


async def test_the_page_can_be_installed(people: People, named: Named) -> None:
    ann = await people(named("ann"))
    found = await ann.page.evaluate(
        "fetch(document.querySelector('link[rel=manifest]').href).then((one) => one.json())"
    )
    assert found["start_url"] == "/" and found["display"] == "standalone"
    for icon in found["icons"]:
        assert await ann.page.evaluate("url => fetch(url).then((one) => one.ok)", icon["src"])
