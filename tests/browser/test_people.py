"""People are shown by the names they chose, everywhere; a conversation can be put away; what is wrong is said."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest
from playwright.async_api import FilePayload, Route, expect

from tests.browser.test_files import png
from tests.support.browser.people import TYPING, People, Person
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]

# A group without a name and two people in it, whom nobody can tell about at first; and the time, which the test owns.
REFUSED = """async () => {
  const { Profiles } = await import('/web/app/people/profiles.js');
  let now = 0;
  performance.now = () => now;
  let asked = 0;
  let error = { temporary: true };
  const answer = async (ids) => {
    asked += 1;
    if (error) throw error;
    return (ids ?? ['ann', 'ben', 'cem']).map((userId) => ({ userId, name: null, avatarUrl: null }));
  };
  const group = { id: 'g', profiles: answer };
  const profiles = new Profiles({ userId: 'ann', on() {} });
  const draw = async () => {
    const title = profiles.titleOf(group);
    await profiles.want(group, ['ben']);
    return title;
  };
  const seen = [];
  for (let i = 0; i < 60; i += 1) seen.push(await draw());
  const refused = asked;
  error = null;
  now = 11_000;
  await draw();
  const told = await draw();
  error = { temporary: false };
  group.id = 'h'; // too many people in this one
  for (let i = 0; i < 60; i += 1, now += 1000) profiles.titleOf(group), await null;
  return { titles: [...new Set(seen)], refused, told, asked };
}"""


async def choose(person: Person, menu: str, entry: str) -> None:
    await person.page.get_by_label(menu, exact=True).click()
    await person.page.get_by_role("menuitem", name=entry).click()


async def test_a_person_is_blocked_from_the_menu_and_the_conversation_goes_away(
    people: People, seeds: Seeds, named: Named
) -> None:
    ann, ben = named("ann"), named("ben")
    conversation = await seeds.direct(ben, ann)
    await seeds.say(ben, conversation, "hello")
    page = await people(ann)
    await page.open(conversation)
    await page.sees("hello")
    await choose(page, "Conversation menu", "Block")
    await page.page.get_by_role("dialog").get_by_role("button", name="Block").click()
    await expect(page.page.locator(".inbox-empty")).to_be_visible()
    with pytest.raises(AssertionError, match="forbidden"):
        await seeds.say(ben, conversation, "are you there?")


async def test_people_are_shown_by_name_and_asked_for_once(people: People, seeds: Seeds, named: Named) -> None:
    ann, ben, cem = named("ann"), named("ben"), named("cem")
    await seeds.introduce(ann, "Ann at work")
    await seeds.introduce(ben, "Ben at work")
    group = await seeds.create(ben, "group", [ann, cem])  # without a name: called by its members
    await seeds.say(ben, group, "hello", "again")
    await seeds.say(cem, group, "from somebody without a profile")
    person = await people(ann)
    page = person.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/profiles" in request.url else None)
    await expect(page.locator(".row-name")).to_have_text(f"Ben at work and {cem}")
    await person.open(group)
    await expect(page.locator(".thread-name")).to_have_text(f"Ben at work and {cem}")
    await expect(page.locator(".start-line strong")).to_have_text(f"Ben at work and {cem}")
    await expect(page.locator(".sender")).to_have_text(["Ben at work", cem])
    async with person.noticing(TYPING, "Ben at work is typing"):
        await (await seeds.client(ben)).request("typing", conversation_id=group, typing=True)
    await person.send("to everybody")
    await person.message("to everybody").locator("button.ticks").click()
    await expect(page.locator(".person", has_text="Ben at work")).to_contain_text(ben)  # a name proves nothing
    await person.dismiss()
    await page.locator(".thread-who").click()
    await expect(page.locator(".person strong")).to_have_text(["Ann at work", "Ben at work", cem])
    await person.dismiss()
    await page.get_by_label("Your account").click()
    await expect(page.locator(".menu p")).to_have_text(f"Signed in as Ann at work ({ann})")
    assert len(asked) == len(set(asked)) <= 2, asked


async def test_what_happened_to_members_is_told_by_name(people: People, seeds: Seeds, named: Named) -> None:
    ann, ben, cem = named("ann"), named("ben"), named("cem")
    await seeds.introduce(cem, "Cem")
    group = await seeds.create(ann, "group", [ben], "Crew")
    path = f"/v1/conversations/{group}/members"
    assert (await asyncio.to_thread(seeds.node.rest, "POST", path, {"user_ids": [cem]}, ann))[0] == 200
    assert (await asyncio.to_thread(seeds.node.rest, "PATCH", f"{path}/{ben}", {"role": "admin"}, ann))[0] == 200
    first, second = await people(ann), await people(ben)
    await first.open(group)
    await expect(first.page.locator(".note-line")).to_have_text(["You added Cem", f"{ben} is now an admin"])
    await second.open(group)
    await expect(second.page.locator(".note-line")).to_have_text([f"{ann} added Cem", "You are now an admin"])


async def test_a_group_without_a_name_is_called_by_its_members_as_they_come_and_go(
    people: People, seeds: Seeds, named: Named
) -> None:
    ann, ben, cem = named("ann"), named("ben"), named("cem")
    group = await seeds.create(ben, "group", [ann])
    person = await people(ann)
    await expect(person.page.locator(".row-name")).to_have_text(ben)
    path = f"/v1/conversations/{group}/members"
    assert (await asyncio.to_thread(seeds.node.rest, "POST", path, {"user_ids": [cem]}, ben))[0] == 200
    await expect(person.page.locator(".row-name")).to_have_text(f"{ben} and {cem}")
    assert (await asyncio.to_thread(seeds.node.rest, "DELETE", f"{path}/{cem}", None, ben))[0] == 204
    await expect(person.page.locator(".row-name")).to_have_text(ben)


async def test_names_that_were_refused_are_asked_for_again_and_not_at_once(people: People, named: Named) -> None:
    person = await people(named("ann"))
    assert await person.page.evaluate(REFUSED) == {"titles": [None], "refused": 2, "told": "ben and cem", "asked": 5}


async def test_members_of_a_large_group_are_called_by_name_and_online_where_they_are(
    people: People, seeds: Seeds, named: Named
) -> None:
    ann, last = named("ann"), named("zoe")
    await seeds.introduce(last, "Zoe")
    await seeds.client(last)  # who is online is asked for in pieces
    group = await seeds.create(ann, "group", [*(f"{named('m')}-{number}" for number in range(240)), last], "Many")
    person = await (await people(ann)).open(group)
    await expect(person.page.locator(".thread-state")).to_have_text("242 members")
    await person.page.locator(".thread-who").click()
    await expect(person.page.locator(".people .person")).to_have_count(242)
    zoe = person.page.locator(".people .person", has_text="Zoe")
    await expect(zoe).to_contain_text("online")
    await expect(person.page.locator(".people .person", has_text="online")).to_have_count(1)


async def test_an_archived_conversation_is_put_away_until_something_new_comes(
    people: People, seeds: Seeds, named: Named
) -> None:
    ann, ben = named("ann"), named("ben")
    direct = await seeds.direct(ben, ann)
    await seeds.say(ben, direct, "done with this")
    person = await people(ann)
    await person.open(direct)
    await choose(person, "Conversation menu", "Archive")
    await expect(person.page.get_by_text("No conversations yet")).to_be_visible()
    await choose(person, "Your account", "Archived conversations")
    await person.row(ben).click()
    await choose(person, "Conversation menu", "Move to the inbox")
    await expect(person.page.get_by_text("Nothing is archived")).to_be_visible()
    await person.page.get_by_label("Back to the inbox").click()
    await expect(person.row(ben)).to_be_visible()
    await choose(person, "Conversation menu", "Archive")
    await expect(person.row(ben)).to_have_count(0)
    await seeds.say(ben, direct, "one more thing")
    await expect(person.row(ben).locator(".badge")).to_have_text("1")
    await choose(person, "Your account", "Archived conversations")
    await expect(person.page.get_by_text("Nothing is archived")).to_be_visible()


async def test_archiving_leaves_the_archived_conversation_and_no_other(
    people: People, seeds: Seeds, named: Named
) -> None:
    ann = named("ann")
    done, other = await seeds.direct(ann, named("ben")), await seeds.direct(ann, named("cem"))
    person = await (await people(ann)).open(done)
    asked: asyncio.Future[Route] = asyncio.get_running_loop().create_future()
    await person.page.route(f"**/v1/inbox/{done}", lambda route: asked.set_result(route))
    await choose(person, "Conversation menu", "Archive")
    route = await asked
    await person.open(other)
    async with person.page.expect_response(f"**/v1/inbox/{done}"):
        await route.continue_()
    await expect(person.row(named("ben"))).to_have_count(0)
    await person.frames()
    assert await person.page.locator(".thread-name", has_text=named("cem")).is_visible()


async def test_what_is_no_person_and_no_address_is_said_in_plain_words(people: People, named: Named) -> None:
    person = await people(named("ann"))
    page = person.page
    await page.get_by_label("New conversation").first.click()
    for text, sentence in (
        (named("josé"), f"Nobody called “{named('josé')}” is here yet."),
        (f"Nobody {named('x')}", f"Nobody called “Nobody {named('x')}” is here yet."),
        (person.user_id, "That is you."),
    ):
        await page.get_by_role("combobox", name="With whom").fill(text)
        await page.keyboard.press("Enter")
        await expect(page.locator("#people-note")).to_have_text(sentence)
    await person.dismiss()
    await choose(person, "Your account", "Your profile")
    await page.get_by_label("Picture (address)").fill("javascript:alert(1)")
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog .fault")).to_contain_text("begins with https://")


async def test_a_profile_picture_is_uploaded_and_seen_by_others(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(me, you)
    await seeds.say(me, conversation, "hello")
    ann = await people(me)
    await choose(ann, "Your account", "Your profile")
    face: FilePayload = {"name": "me.png", "mimeType": "image/png", "buffer": png(64, 64, 200)}
    await ann.page.locator('dialog input[type="file"]').set_input_files(face)
    await expect(ann.page.locator("dialog .own-picture img")).to_have_attribute("src", re.compile("^/v1/pictures/"))
    await ann.page.locator("#profile-name").fill("Ann")
    await ann.page.get_by_role("button", name="Save").click()
    await expect(ann.page.get_by_role("dialog")).to_have_count(0)
    bob = await people(you)
    await expect(bob.row("Ann").locator(".avatar img")).to_have_attribute("src", re.compile("^/v1/pictures/"))


async def test_a_profile_that_is_not_there_yet_can_be_neither_changed_nor_wiped(
    people: People, seeds: Seeds, named: Named
) -> None:
    me = named("ann")
    await seeds.introduce(me, "Ann at work")
    ann = await people(me)
    await expect(ann.page.get_by_label("Your account")).to_have_attribute("data-shown", "Ann at work null")
    asked: asyncio.Queue[Route] = asyncio.Queue()
    await ann.page.route(f"**/v1/users/{me}", asked.put)
    dialog, save = ann.page.get_by_role("dialog", name="Your profile"), ann.page.get_by_role("button", name="Save")
    await choose(ann, "Your account", "Your profile")
    refusal = {"error": {"code": "forbidden", "message": "Not now.", "temporary": False}}
    await (await asked.get()).fulfill(status=403, json=refusal)
    await expect(dialog.get_by_role("alert")).not_to_be_empty()
    await expect(save).to_have_count(0)
    await ann.dismiss()
    await choose(ann, "Your account", "Your profile")
    late = await asked.get()
    await expect(dialog).to_be_visible()
    await expect(save).to_have_count(0)
    await ann.dismiss()
    await late.continue_()  # to a dialog that is closed
    await late.request.response()
    await ann.page.unroute(f"**/v1/users/{me}")
    await choose(ann, "Your account", "Your profile")
    await expect(ann.page.locator("#profile-name")).to_have_value("Ann at work")
    await ann.page.locator("#profile-url").fill("https://example.com/ann.png")
    await save.click()
    await expect(dialog).to_have_count(0)
    _, kept = await asyncio.to_thread(people.node.rest, "GET", f"/v1/users/{me}", None, me)
    assert (kept["name"], kept["avatar_url"]) == ("Ann at work", "https://example.com/ann.png")


async def test_enter_writes_to_nobody_who_is_not_known(people: People, seeds: Seeds, named: Named) -> None:
    """A message to an id that nobody has reaches nobody, and its sender is told that it was sent."""
    ann = await people(named("ann"))
    page = ann.page
    await page.get_by_label("New conversation").first.click()
    ghost = named("Ghost")
    await page.keyboard.type(ghost)
    await page.keyboard.press("Enter")
    await expect(page.locator("#people-note")).to_have_text(f"Nobody called “{ghost}” is here yet.")
    await page.get_by_role("button", name="Start").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await expect(page.locator(".thread-open")).to_be_hidden()
    await page.locator(".option.is-unknown").click()
    await expect(page.locator("#people-note")).to_contain_text("Nobody is known by the marked id.")
    await page.get_by_role("button", name="Start").click()
    await expect(page.locator(".thread-name")).to_have_text(ghost)


async def test_an_address_that_leads_nowhere_says_so(people: People, seeds: Seeds, named: Named) -> None:
    ann = named("ann")
    foreign = await seeds.direct(named("ben"), named("cem"))
    person = await people(ann)
    for way in (foreign, "no-such-conversation"):
        await person.page.evaluate("id => { location.hash = `#/c/${id}` }", way)
        await expect(person.page.get_by_text("There is no such conversation, or you are not in it.")).to_be_visible()
        await expect(person.page.get_by_role("textbox", name="Message", exact=True)).to_be_hidden()
        await person.page.get_by_role("button", name="Back to conversations").last.click()
        await expect(person.page.get_by_text("Your conversations")).to_be_visible()
    await person.page.evaluate("location.hash = '#/c/%E0%A4%A'")  # cut in the middle of a letter
    await person.until("document.querySelector('.shell').dataset.pane === 'inbox'")
