"""Answers that come late, or in another order than they were asked for, change nothing that is newer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from playwright.async_api import expect

from tests.browser.test_admin import Visit, keys, north, visit
from tests.support.browser.answers import PATIENT, LateAnswers
from tests.support.browser.people import People, Person
from tests.support.browser.seeding import Seeds

__all__ = ["keys", "north", "visit"]  # fixtures
Named = Callable[[str], str]


async def patient(people: People, user_id: str) -> Person:
    """Somebody whose page gives up no request. A service worker would load what the test keeps back."""
    person = await people(user_id, is_in=False, service_workers="block")
    await person.page.add_init_script(PATIENT)
    return person


async def test_what_is_known_later_is_shown_and_what_was_known_earlier_is_not(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you, third = named("ann"), named("bob"), named("cleo")
    await seeds.introduce(you, "Bob Example")
    group = await seeds.create(you, "group", [me], "builders")
    await seeds.say(you, group, "which colour?", "which size?")
    ann = await patient(people, me)
    saved = await LateAnswers().join(ann.page, "**/v1/saved")
    details = await LateAnswers().join(ann.page, f"**/v1/conversations/{group}")
    names = await LateAnswers().join(ann.page, "**/profiles*")
    await (await ann.enter(people.node.token(me))).open(group)

    await details.asked(1)
    path, body = f"/v1/conversations/{group}/members", {"user_ids": [third]}
    await asyncio.to_thread(people.node.rest, "POST", path, body, you)
    await details.asked(2)
    await details.release()
    await ann.frames()
    await expect(ann.page.locator(".thread-state")).to_contain_text("3 members")

    await ann.page.get_by_role("textbox", name="Message", exact=True).type("@Exam")
    await expect(ann.page.locator(".suggestion")).to_have_count(0)
    await names.release()
    await expect(ann.page.locator(".suggestion")).to_contain_text("Bob Example")

    await saved.asked(1)
    await ann.message("which size?").hover()
    await ann.message("which size?").get_by_label("Message menu").click()
    await ann.page.get_by_role("menuitem", name="Save for later").click()
    await expect(ann.message("which size?").locator(".pin-mark")).to_be_visible()
    await saved.release()
    await seeds.say(you, group, "and which form?")
    await ann.sees("and which form?")  # all is drawn again
    await expect(ann.message("which size?").locator(".pin-mark")).to_be_visible()


# Two pins, one after the other. The server answers the second question first where both are under way.
PINS = """async () => {
  const { PinBar } = await import('/web/app/thread/pins.js');
  const waiting = [];
  let number = 0;
  const pins = () => new Promise((resolve) => {
    const message = { seq: (number += 1), senderId: 'bob', text: `pin ${number}` };
    waiting.push(() => resolve([{ message }]));
  });
  const profiles = { want() {}, nameOf: (id) => id, named: (text) => text };
  const bar = new PinBar({ conversation: { pins }, client: { userId: 'ann' }, profiles });
  let isOver = false;
  Promise.all([bar.load(), bar.load()]).then(() => { isOver = true; });
  while (!isOver) {
    await new Promise((resolve) => setTimeout(resolve));
    waiting.pop()?.();
  }
  return bar.element.textContent;
}"""


# A page of a list that is asked for twice, and a search whose answer is an error that comes after that of the next one.
LISTS = """async () => {
  const { moreButton } = await import('/web/app/parts/more.js');
  let pages = 0;
  const more = moreButton(async () => { pages += 1; });
  more.click();
  more.click();
  const { showList } = await import('/web/admin/listing.js');
  const place = document.createElement('div');
  let fail = null;
  const late = new Promise((_, reject) => { fail = reject; });
  const answers = [late, Promise.resolve({ rows: ['found'], next_cursor: null })];
  document.body.append(place);
  showList(place, { title: 'Users', columns: [['Id']], load: () => answers.shift(), row: (one) => [one] });
  place.querySelector('form').requestSubmit();
  const later = () => new Promise((resolve) => setTimeout(resolve));
  await later();
  fail({ status: 500, message: 'late' });
  await later();
  return [pages, place.querySelector('.results').textContent.includes('late')];
}"""


async def test_a_page_of_a_list_is_loaded_once_and_a_late_error_replaces_nothing(people: People, named: Named) -> None:
    ann = await people(named("ann"))
    assert await ann.page.evaluate(LISTS) == [1, False]


async def test_the_pinned_messages_are_those_that_were_read_last(people: People, named: Named) -> None:
    ann = await people(named("ann"))
    assert "bob: pin 2" in await ann.page.evaluate(PINS)


async def test_a_part_that_is_loaded_for_one_conversation_does_not_open_in_another(
    people: People, seeds: Seeds, named: Named
) -> None:
    me = named("ann")
    first, second = [await seeds.create(me, "group", [named("bob")], name) for name in ("first", "second")]
    await seeds.say(me, first, "hello")
    ann = await patient(people, me)
    later = await LateAnswers().join(ann.page, "**/assets/later-*.js")
    await (await ann.enter(people.node.token(me))).open(first)
    await ann.message("hello").locator("button.ticks").click()
    await later.asked(1)
    await ann.open(second)
    await later.release()
    await ann.page.get_by_label("Your account").click()
    await ann.page.get_by_role("menuitem", name="Saved messages").click()
    await expect(ann.page.get_by_text("Nothing saved yet")).to_be_visible()
    await expect(ann.page.get_by_role("dialog")).to_have_count(1)


async def test_what_was_chosen_stays_chosen_and_what_was_closed_stays_closed(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    for number in range(3):
        group = await seeds.create(you, "group", [me], f"maple {number}")
    await seeds.say(you, group, "a maple tree")
    others = [named("maple-east"), named("maple-west")]
    for other, name in zip(others, ("Maple East", "Maple West"), strict=True):
        await seeds.introduce(other, f"{name} of {me}")
    ann = await patient(people, me)
    found = await LateAnswers().join(ann.page, "**/v1/search?*")
    await ann.enter(people.node.token(me))
    await ann.page.keyboard.press("Control+k")
    await ann.page.keyboard.type("maple")
    await found.asked(1)
    await ann.page.keyboard.press("ArrowDown")
    chosen = ann.page.locator('.quick-row[aria-selected="true"] strong')
    name = await chosen.inner_text()
    await found.release()
    await expect(ann.page.locator(".quick-row .hit")).to_have_count(1)
    await expect(chosen).to_have_text(name)
    await ann.dismiss()

    found.hold()
    await ann.page.keyboard.press("Control+k")
    await ann.page.keyboard.type("maple")
    await found.asked(1)
    await ann.dismiss()
    await ann.page.keyboard.press("Control+k")
    await found.release()
    await ann.frames()
    await expect(ann.page.locator(".quick-row .hit")).to_have_count(0)
    await ann.dismiss()

    await ann.page.get_by_label("New conversation").first.click()
    await ann.page.get_by_role("combobox", name="With whom").fill(f"of {me}")
    await expect(ann.page.locator(".option")).to_have_count(2)
    second = await ann.page.locator(".option strong").nth(1).inner_text()
    await ann.page.keyboard.press("ArrowDown")
    await ann.page.keyboard.press("Enter")
    await expect(ann.page.locator(".thread-name")).to_have_text(second)


async def test_a_list_of_the_admin_page_is_the_one_that_was_asked_for_last(
    visit: Visit, keys: dict[str, str], named: Named
) -> None:
    ops, name = await visit(keys["admin"]), named("wall")
    listed = await LateAnswers().join(ops.page, "**/v1/admin/keys")
    await ops.view("keys")
    await listed.asked(1)
    await ops.page.get_by_label("Name").fill(name)
    await ops.page.get_by_role("button", name="Make a key").click()
    await ops.dismiss()
    await listed.asked(2)
    await listed.release()
    await ops.frames()
    await expect(ops.page.locator("tbody tr", has_text=name)).to_be_visible()
