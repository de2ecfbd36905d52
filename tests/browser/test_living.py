"""Typing, presence, members, keys, a phone, and what is broken on the way: a lost network, a refused message."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from tests.browser.conftest import LIMITS
from tests.support.browser.people import TYPING, People
from tests.support.browser.seeding import Seeds
from tests.support.nodes.node_process import NodeProcess
from tidings_proof.world.proxy import open_proxy

Named = Callable[[str], str]


@pytest.mark.long
async def test_typing_and_presence_are_seen_and_end(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "hi")
    ann, bob = await (await people(me)).open(conversation), await (await people(you)).open(conversation)
    state = ann.page.locator(".thread-state")
    await expect(state).to_have_text("online")
    both = f"(text) => ({TYPING})(text) && document.querySelector('.thread-state').textContent === 'typing …'"
    async with ann.noticing(both, f"{you} is typing"):
        await bob.page.get_by_role("textbox", name="Message", exact=True).press_sequentially("I am")
    await bob.page.get_by_role("textbox", name="Message", exact=True).press("Enter")
    await ann.sees("I am")
    await expect(state).to_have_text("online")
    await bob.context.close()
    people.everybody.remove(bob)
    await (await seeds.client(you)).close()
    seeds._clients.pop(you)
    await expect(state).to_have_text(re.compile(r"last seen \d{1,2}:\d\d"))


async def test_offline_messages_are_queued_and_sent_once_in_order(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(me, you)
    bob = await (await people(you)).open(conversation)
    async with open_proxy(people.node.port) as network:
        ann = await (await people(me, port=network.port)).open(conversation)
        await ann.send("before")
        await bob.sees("before")
        await expect(ann.page.locator(".thread-state")).to_have_text("online")
        await network.cut()
        banner = ann.page.locator(".banner")
        await expect(banner).to_contain_text("No connection to the server")
        await expect(ann.page.locator(".thread-state")).to_have_text("")  # nobody knows now who is here
        for text in ("queued 1", "queued 2", "queued 3"):
            await ann.send(text)
            await ann.sees_tick(text, "sending")
        await expect(banner).to_contain_text("3 messages wait and will be sent")
        await expect(banner).to_contain_text(re.compile(r"Next try in \d+ s"))
        network.mend()
        await ann.page.reload()
        await expect(banner).to_be_hidden()
        await ann.sees_tick("queued 3", "read")
    wanted = ["before", "queued 1", "queued 2", "queued 3"]
    for person in (ann, bob):
        await expect(person.page.locator(".messages .text")).to_have_text(wanted)
    assert await seeds.log_of(you, conversation) == wanted


@pytest.mark.long
async def test_a_text_that_cannot_even_be_queued_stays_where_it_was_written(
    people: People, seeds: Seeds, named: Named
) -> None:
    me = named("ann")
    conversation = await seeds.direct(me, named("bob"))
    async with open_proxy(people.node.port) as network:
        ann = await (await people(me, port=network.port)).open(conversation)
        await network.cut()
        await expect(ann.page.locator(".banner")).to_contain_text("No connection to the server")
        field = ann.page.get_by_role("textbox", name="Message", exact=True)
        await field.evaluate("""field => {
            for (let i = 0; i < 1000; i += 1) {
                field.value = `queued ${i}`;
                field.form.requestSubmit();
            }
        }""")
        await field.fill("one more")
        await field.press("Enter")
        await expect(ann.page.get_by_role("alert").filter(has_text="1000 messages wait")).to_be_visible()
        await expect(field).to_have_value("one more")


async def test_an_edit_leaves_the_draft_that_was_begun_before_it(people: People, seeds: Seeds, named: Named) -> None:
    me = named("ann")
    conversation = await seeds.direct(me, named("bob"))
    ann = await (await people(me)).open(conversation)
    await ann.send("helo")
    await ann.sees_tick("helo", "sent")
    field = ann.page.get_by_role("textbox", name="Message", exact=True)
    await field.fill("begun")
    await ann.message("helo").locator(".text").hover()
    await ann.message("helo").get_by_label("Message menu").click()
    await ann.page.get_by_role("menuitem", name="Edit").click()
    await field.fill("hello")
    await field.press("Enter")
    await ann.sees("hello")
    await expect(field).to_have_value("begun")


async def test_a_refused_message_says_so_and_can_be_retried_or_discarded(
    people: People, seeds: Seeds, named: Named
) -> None:
    me = named("ann")
    conversation = await seeds.direct(me, named("bob"))
    ann = await (await people(me)).open(conversation)
    field = ann.page.get_by_role("textbox", name="Message", exact=True)
    await field.fill("x" * 16_385)
    await expect(ann.page.get_by_role("alert").filter(has_text="longer than one message may be")).to_be_visible()
    await field.fill("short")
    await field.evaluate("el => { el.value = 'y'.repeat(16385) }")  # past the page's own check: the server's is the law
    await field.press("Enter")
    failed = ann.page.locator(".message.is-failed")
    await expect(failed.locator('[data-state="failed"]')).to_contain_text("Not sent")
    await ann.send("the next one is not held up")
    await expect(ann.row(named("bob")).locator(".row-preview")).to_contain_text("You: the next one is not held up")
    await failed.get_by_role("button", name="Retry").click()
    await expect(failed.locator('[data-state="failed"]')).to_be_visible()
    await failed.locator(".text").hover()
    await failed.get_by_label("Message menu").click()
    await ann.page.get_by_role("menuitem", name="Discard").click()
    await expect(failed).to_have_count(0)


async def test_a_retry_that_finds_no_room_in_the_queue_says_so(people: People, seeds: Seeds, named: Named) -> None:
    me = named("ann")
    conversation = await seeds.direct(me, named("bob"))

    async def narrow(route: Route) -> None:
        text = await (await route.fetch()).text()
        assert "OUTBOX_MAX = 1000;" in text
        await route.fulfill(body=text.replace("OUTBOX_MAX = 1000;", "OUTBOX_MAX = 1;"), content_type="text/javascript")

    async with open_proxy(people.node.port) as network:
        ann = await people(me, port=network.port, is_in=False)
        await ann.page.route("**/assets/page-*.js", narrow)
        await (await ann.enter(people.node.token(me))).open(conversation)
        field = ann.page.get_by_role("textbox", name="Message", exact=True)
        await field.fill("short")
        await field.evaluate("el => { el.value = 'y'.repeat(16385) }")
        await field.press("Enter")
        failed = ann.page.locator(".message.is-failed")
        await expect(failed).to_be_visible()
        await network.cut()
        await ann.send("queued")
        await ann.sees_tick("queued", "sending")
        await failed.get_by_role("button", name="Retry").click()
        await expect(ann.page.get_by_role("alert").filter(has_text="1 messages wait")).to_be_visible()
        await expect(failed).to_be_visible()


@pytest.mark.long
async def test_a_group_is_made_renamed_and_left(people: People, named: Named) -> None:
    ann, bob = await people(named("ann")), await people(named("bob"))
    await ann.page.get_by_label("New conversation").first.click()
    await ann.page.get_by_role("dialog").get_by_text("Group").click()
    await ann.page.get_by_label("Name", exact=True).fill("hikers")
    await ann.pick("Members", bob.user_id, named("cleo"))
    await ann.page.get_by_role("button", name="Start").click()
    await expect(ann.page.locator(".thread-state")).to_contain_text("3 members")
    await expect(bob.row("hikers")).to_be_visible()
    await ann.page.locator(".thread-who").click()
    dialog = ann.page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Settings").click()
    await dialog.get_by_label("Name", exact=True).fill("hikers and climbers")
    await dialog.get_by_role("button", name="Rename").click()
    await expect(bob.row("hikers and climbers")).to_be_visible()
    await dialog.get_by_role("button", name="Add members").click()
    await ann.pick("Add members", named("dan"))
    await dialog.get_by_role("button", name="Add", exact=True).click()
    await expect(dialog.locator(".people").get_by_text(named("dan"))).to_be_visible()
    await dialog.get_by_label(f"Actions for {named('cleo')}").click()
    await ann.page.get_by_role("menuitem", name="Remove").click()
    await ann.page.get_by_role("dialog").last.get_by_role("button", name="Remove").click()
    await expect(dialog.locator(".people").get_by_text(named("cleo"))).to_have_count(0)
    await ann.dismiss()
    await expect(ann.page.locator(".note-line", has_text=f"removed {named('cleo')}")).to_be_visible()
    await bob.row("hikers and climbers").click()
    await bob.page.get_by_label("Conversation menu").click()
    await bob.page.get_by_role("menuitem", name="Leave").click()
    await bob.page.get_by_role("dialog").get_by_role("button", name="Leave").click()
    await expect(bob.page.locator(".inbox-empty")).to_be_visible()
    await expect(ann.page.locator(".note-line", has_text=f"{bob.user_id} left")).to_be_visible()


@pytest.mark.long
async def test_a_channel_is_made_and_heard(people: People, named: Named) -> None:
    ann, bob = await people(named("ann")), await people(named("bob"))
    await ann.page.get_by_label("New conversation").first.click()
    await ann.page.get_by_role("dialog").get_by_text("Channel").click()
    await ann.page.get_by_label("Name", exact=True).fill("weather")
    await ann.pick("Members", bob.user_id)
    await ann.page.get_by_role("button", name="Start").click()
    await ann.page.wait_for_selector(".start-line")
    await ann.send("rain from four")
    await expect(bob.row("weather").locator(".row-preview")).to_have_text(f"{ann.user_id}: rain from four")


async def test_everything_is_reached_by_keys(people: People, seeds: Seeds, named: Named) -> None:
    me, you, third = named("ann"), named("bob"), named("cleo")
    for friend in (you, third):
        await seeds.say(friend, await seeds.direct(friend, me), f"hi from {friend}")
    ann = await people(me)
    keys = ann.page.keyboard
    await ann.row(third).focus()
    await keys.press("ArrowDown")
    await expect(ann.row(you)).to_be_focused()
    await keys.press("Enter")
    await ann.sees(f"hi from {you}")
    await expect(ann.page.get_by_role("textbox", name="Message", exact=True)).to_be_focused()
    await keys.type("two")
    await keys.press("Shift+Enter")
    await keys.type("lines")
    await keys.press("Enter")
    await expect(ann.page.locator(".is-mine .text")).to_have_text("two\nlines", use_inner_text=True)
    await expect(ann.page.locator(".row-name")).to_have_text([you, third])
    await keys.press("Alt+ArrowDown")
    await ann.sees(f"hi from {third}")
    await keys.press("Shift+Tab")
    await keys.press("ArrowUp")
    await expect(ann.message(f"hi from {third}")).to_be_focused()
    await keys.press("Enter")
    await expect(ann.page.get_by_role("menuitem", name="Reply", exact=True)).to_be_focused()
    for entry in ("Reply in thread", "Copy text", "Forward", "Pin", "Save for later", "Mark unread from here"):
        await keys.press("ArrowDown")
        await expect(ann.page.get_by_role("menuitem", name=entry)).to_be_focused()
    await keys.press("Escape")
    await keys.press("Escape")
    await expect(ann.row(third)).to_be_focused()
    await expect(ann.page.locator(".thread-empty")).to_be_visible()


async def test_new_messages_are_spoken_and_history_is_not(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "from before")
    ann = await (await people(me)).open(conversation)
    await ann.sees("from before")
    log = ann.page.get_by_role("log")
    await seeds.say(you, conversation, "just now")
    await expect(log).to_have_text(f"{you}: just now")


async def test_on_a_phone_inbox_and_conversation_are_two_screens(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "a long word: " + "w" * 300, "and https://example.com/" + "path/" * 40)
    shape: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    ann = await people(me, **shape)
    await expect(ann.page.locator(".thread")).to_be_hidden()
    await ann.row(you).tap()
    await expect(ann.page.locator(".inbox")).to_be_hidden()
    await ann.page.wait_for_selector(".message")
    width = "() => [document.scrollingElement.scrollWidth, document.querySelector('.thread-view').scrollWidth]"
    assert await ann.page.evaluate(width) == [360, 360]
    small = """() => [...document.querySelectorAll('.thread-head button, .composer button, .composer textarea')]
      .filter((el) => el.offsetParent && Math.min(el.offsetWidth, el.offsetHeight) < 44).map((el) => el.outerHTML)"""
    assert await ann.page.evaluate(small) == []
    await ann.page.get_by_label("Back to conversations").tap()
    await expect(ann.page.locator(".inbox")).to_be_visible()


@pytest.mark.long
async def test_colours_follow_the_system_or_the_choice_and_motion_can_be_off(people: People, named: Named) -> None:
    ann = await people(named("ann"), color_scheme="dark", reduced_motion="reduce")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    dark = await ann.page.evaluate(ground)
    await ann.page.get_by_label("Your account").click()
    await ann.page.get_by_role("menuitem", name="Light colours").click()
    light = await ann.page.evaluate(ground)
    assert dark == "rgb(11, 13, 18)" and light == "rgb(238, 240, 246)"
    await ann.page.reload()
    await ann.page.wait_for_selector(".inbox-empty:not([hidden])")
    assert await ann.page.evaluate(ground) == light
    await ann.frames()
    moving = "() => document.getAnimations().filter((one) => one.playState === 'running').length"
    assert await ann.page.evaluate(moving) == 0


async def test_enter_signs_in_with_a_token(browser: Browser, named: Named, tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", LIMITS) as node:
        people = People(browser, await asyncio.to_thread(node.start))
        ann = await people(named("ann"), is_in=False)
        await ann.page.goto(ann.url)
        field = ann.page.get_by_label("Token")
        await field.press("Enter")
        assert await field.input_value() == "", "there is nothing to send yet"
        await field.fill(node.token(ann.user_id))
        await field.press("Enter")
        await expect(ann.page.locator(".inbox-empty")).to_be_visible()
        assert await people.close() == []


async def test_a_token_of_the_address_stays_in_its_tab(people: People, named: Named) -> None:
    ann = await people(named("ann"))
    assert "token" not in ann.page.url
    await ann.page.reload()
    await expect(ann.page.locator(".inbox-empty")).to_be_visible()
    other = await ann.context.new_page()
    await other.goto(ann.url)
    await expect(other.get_by_role("heading", name="Welcome to Tidings")).to_be_visible()
    assert await other.evaluate("localStorage.getItem('tidings.token')") is None


async def test_a_link_never_replaces_another_users_sign_in_without_a_question(people: People, named: Named) -> None:
    ann = await people(named("ann"), is_in=False)
    attacker = named("mallory")
    await ann.page.goto(ann.url)
    token, theirs = people.node.token(ann.user_id), people.node.token(attacker)
    await ann.page.evaluate("token => localStorage.setItem('tidings.token', token)", token)
    link = await ann.context.new_page()
    await link.goto(f"{ann.url}/#token={theirs}")
    await expect(link.get_by_role("heading", name="Sign in as somebody else?")).to_be_visible()
    await link.get_by_role("button", name=f"Stay {ann.user_id}").click()
    await link.get_by_label("Your account").click()
    await expect(link.get_by_text(f"Signed in as {ann.user_id}")).to_be_visible()
    again = await ann.context.new_page()
    await again.goto(f"{ann.url}/#token={theirs}")
    await again.get_by_role("button", name=f"Sign in as {attacker}").click()
    await again.get_by_label("Your account").click()
    await expect(again.get_by_text(f"Signed in as {attacker}")).to_be_visible()
    assert await again.evaluate("localStorage.getItem('tidings.token')") == token, "later tabs are still hers"
    await again.get_by_role("menuitem", name="Sign out").click()
    await expect(again.locator(".inbox-empty")).to_be_visible()
    await again.wait_for_function("token => localStorage.getItem('tidings.token') === token", arg=token)


@pytest.mark.long
async def test_a_token_is_taken_from_storage_and_a_bad_one_asks_to_sign_in(people: People, named: Named) -> None:
    ann = await people(named("ann"), is_in=False)
    await ann.page.goto(ann.url)
    token = people.node.token(ann.user_id)
    await ann.page.evaluate("token => localStorage.setItem('tidings.token', token)", token)
    other = await ann.context.new_page()
    await other.goto(ann.url)
    await expect(other.locator(".inbox-empty")).to_be_visible()
    await other.get_by_label("Your account").click()
    await expect(other.get_by_text(f"Signed in as {ann.user_id}")).to_be_visible()
    await other.get_by_role("menuitem", name="Sign out").click()
    await expect(other.get_by_role("heading", name="Welcome to Tidings")).to_be_visible()
    bad = await people(named("bob"), is_in=False)
    await bad.page.goto(f"{bad.url}/#token=not.a.token")
    await expect(bad.page.get_by_text("Please sign in again")).to_be_visible()
