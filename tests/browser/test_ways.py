"""Ways into a conversation and out of trouble: public ones, invite links, roles, reports, and muting for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from playwright.async_api import expect

from tests.browser.test_access import findings
from tests.support.browser.people import People, Person
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]


async def choose(person: Person, menu: str, *entries: str) -> None:
    await person.page.get_by_label(menu, exact=True).click()
    for entry in entries:
        await person.page.get_by_role("menuitem", name=entry, exact=True).click()


async def test_a_channel_is_opened_to_everybody_found_and_joined(people: People, seeds: Seeds, named: Named) -> None:
    me, you, name = named("ann"), named("bob"), named("gardeners")
    channel = await seeds.create(me, "channel", [], name)
    await seeds.say(me, channel, "welcome to the garden")
    ann, bob = await (await people(me)).open(channel), await people(you)
    await ann.page.locator(".thread-who").click()
    await ann.page.get_by_role("button", name="Settings").click()
    await ann.page.get_by_label("Who finds it").select_option("Everybody finds it and may join")
    await ann.page.get_by_label("Who may write").select_option("Only admins")
    assert await findings(ann, "members and rules") == []
    rules = {"visibility": "open", "post": "admins"}
    await seeds.read(me, channel, "", lambda found: rules.items() <= found["rules"].items())
    await choose(bob, "Your account", "Public conversations")
    await bob.page.locator("#directory").fill(name)
    await expect(bob.page.get_by_role("dialog").locator(".person")).to_have_count(1)
    assert await findings(bob, "public conversations") == []
    await bob.page.get_by_role("button", name=f"Join {name}").click()
    await expect(bob.page.locator(".thread-name")).to_have_text(name)
    await bob.sees("welcome to the garden")
    await expect(ann.page.get_by_text(f"{you} joined")).to_be_visible()
    await choose(bob, "Your account", "Public conversations")
    await bob.page.locator("#directory").fill(name)
    await expect(bob.page.get_by_role("button", name=f"Open {name}")).to_be_visible()
    await bob.page.locator("#directory").fill(f"{name} that nobody made")
    await expect(bob.page.get_by_role("dialog")).to_contain_text("No match")


async def test_an_invite_link_asks_and_joins_also_after_the_sign_in(people: People, seeds: Seeds, named: Named) -> None:
    me, you, third = named("ann"), named("bob"), named("cleo")
    group = await seeds.create(me, "channel", [], "the inner circle")
    await seeds.say(me, group, "who else?")
    ann = await (await people(me)).open(group)
    await ann.page.locator(".thread-who").click()
    await ann.page.get_by_role("button", name="Invite links").click()
    await ann.page.get_by_role("button", name="Make a link").click()
    link = await ann.page.get_by_label("Invite link", exact=True).input_value()
    assert link.startswith(f"{ann.url}/#invite=")
    assert await findings(ann, "invite links") == []
    bob = await people(you)
    await bob.page.goto(link)
    await expect(bob.page.get_by_role("heading", name="You are invited")).to_be_visible()
    assert "invite" not in bob.page.url
    await bob.page.get_by_role("dialog").get_by_role("button", name="Join").click()
    await bob.sees("who else?")
    cleo = await people(third, is_in=False)
    await cleo.page.goto(link)
    await cleo.page.get_by_label("Your name").fill(third)
    await cleo.page.get_by_role("button", name="Continue").click()
    await cleo.page.get_by_role("dialog").get_by_role("button", name="Join").click()
    await cleo.sees("who else?")
    await expect(ann.page.locator(".note-line").last).to_contain_text(f"{third} joined")
    await ann.page.get_by_label("Take the link back").click()
    await expect(ann.page.get_by_label("Take the link back")).to_have_count(0)
    dana = await people(named("dana"))
    await dana.page.goto(link)
    await dana.page.get_by_role("dialog").get_by_role("button", name="Join").click()
    await expect(dana.page.get_by_text("This is over or used up.")).to_be_visible()


async def test_roles_change_in_the_list_and_a_banned_person_stays_out(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you, third = named("ann"), named("bob"), named("cleo")
    group = await seeds.create(me, "group", [you, third], "three of us")
    ann = await (await people(me)).open(group)
    await ann.page.locator(".thread-who").click()
    dialog = ann.page.get_by_role("dialog").first
    rows = dialog.locator(".people > .person:not(.option)")
    await expect(rows.filter(has_text=me)).to_contain_text("Owner")
    await choose(ann, f"Actions for {you}", "Make admin")
    await expect(rows.filter(has_text=you)).to_contain_text("Admin")
    await choose(ann, f"Actions for {third}", "Ban")
    await ann.page.get_by_role("dialog").last.get_by_role("button", name="Ban").click()
    await expect(rows).to_have_count(2)
    body = {"user_ids": [third]}
    path = f"/v1/conversations/{group}/members"
    status, answer = await asyncio.to_thread(people.node.rest, "POST", path, body, me)
    assert status == 403, answer


async def test_a_message_is_reported_and_a_conversation_muted_for_an_hour(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "something nasty")
    ann = await (await people(me)).open(conversation)
    await ann.message("something nasty").hover()
    await ann.message("something nasty").get_by_label("Message menu").click()
    await ann.page.get_by_role("menuitem", name="Report").click()
    await ann.page.get_by_label("Reason").fill("it is nasty")
    assert await findings(ann, "report") == []
    await ann.page.get_by_role("button", name="Report").click()
    await expect(ann.page.get_by_text("Thank you. The moderators will look at it.")).to_be_visible()
    await ann.page.keyboard.press("Enter")
    await choose(ann, "Conversation menu", "Mute …", "1 hour")
    await expect(ann.page.locator(".thread-mute")).to_contain_text("Muted until")
    await expect(ann.row(you)).to_have_class("row is-muted")
    await choose(ann, "Conversation menu", "Unmute")
    await expect(ann.page.locator(".thread-mute")).to_be_hidden()


async def test_quiet_hours_are_kept_and_end(people: People, named: Named) -> None:
    ann = await people(named("ann"))
    await choose(ann, "Your account", "Preferences")
    await ann.page.get_by_label("Quiet hours").check()
    await ann.page.get_by_label("From", exact=True).fill("21:30")
    await ann.page.get_by_label("Mentions still come through").uncheck()
    assert await findings(ann, "quiet hours") == []
    await ann.page.get_by_role("button", name="Save").click()
    await expect(ann.page.get_by_role("dialog")).to_have_count(0)
    _, kept = await asyncio.to_thread(people.node.rest, "GET", "/v1/preferences", None, ann.user_id)
    assert kept["quiet"] == [{"days": [1, 2, 3, 4, 5, 6, 7], "from": "21:30", "to": "07:00"}]
    assert (kept["time_zone"], kept["quiet_lets"]) == ("Europe/Vienna", "nothing")
    await choose(ann, "Your account", "Preferences")
    await expect(ann.page.get_by_label("From", exact=True)).to_have_value("21:30")
    await ann.page.get_by_label("Quiet hours").uncheck()
    await ann.page.get_by_role("button", name="Save").click()
    await expect(ann.page.get_by_role("dialog")).to_have_count(0)
    _, kept = await asyncio.to_thread(people.node.rest, "GET", "/v1/preferences", None, ann.user_id)
    assert not kept.get("quiet")
