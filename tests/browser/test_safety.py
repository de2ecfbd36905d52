"""What somebody else wrote stays text: markup, scripts, addresses, names, in every place where the page shows them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import expect

from tests.support.browser.people import PATIENCE_MS, People
from tests.support.browser.seeding import Seeds

Named = Callable[[str], str]
APP = Path(__file__).resolve().parents[2] / "src" / "tidings" / "web" / "app"

CORPUS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<svg/onload=alert(3)>",
    '"><script src=//example.com/x.js></script>',
    "<iframe srcdoc='<script>parent.alert(4)</script>'></iframe>",
    "<a href=javascript:alert(5)>press</a>",
    "javascript:alert(6)",
    "data:text/html,<script>alert(7)</script>",
    "<style>body{display:none}</style>",
    "<math><mtext></p><img src onerror=alert(8)>",
    "{{constructor.constructor('alert(9)')()}}",
    "${alert(10)}",
    "<template><img src=x onerror=alert(11)></template>",
    "</textarea><script>alert(12)</script>",
    'https://example.com/"onmouseover=alert(13)//',
    "https://example.com/%22%3E%3Cscript%3Ealert(14)%3C/script%3E",
    "\u202eevil\u2066reversed\u2069 text",
    "&lt;b&gt;entities&lt;/b&gt; &amp; more",
    "<!--<img src='--><img src=x onerror=alert(15)//'>",
    "<form action=//example.com><button>send</button></form>",
]


async def test_no_text_and_no_name_becomes_anything_but_text(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    name = "<img src=x onerror=alert('name')>"
    await seeds.introduce(you, "<svg/onload=alert('profile')>")
    group = await seeds.create(you, "group", [me], name)
    await seeds.say(you, group, *CORPUS)
    ann = await people(me)
    await expect(ann.row(name).locator(".row-preview")).to_contain_text(CORPUS[-1])
    await ann.open(group)
    await expect(ann.page.locator(".thread-head h2")).to_contain_text(name)
    for text in CORPUS:
        await seeds.say(you, group, text)  # live too, where it is also spoken
    seen: set[str] = set()
    up_and_again = "el => { el.scrollTop = el.scrollTop > 0 ? el.scrollTop - 400 : el.scrollHeight }"
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while not set(CORPUS) <= seen:
            seen |= set(await ann.texts())
            await ann.page.eval_on_selector(".thread-view", up_and_again)
            await ann.frames()
    strange = ".thread :is(script, img, iframe, style, math, template, form:not(.composer))"
    await expect(ann.page.locator(strange)).to_have_count(0)
    hrefs = await ann.page.eval_on_selector_all(".messages a", "els => els.map(el => el.href)")
    assert all(href.startswith("https://example.com/") for href in hrefs), hrefs
    await expect(ann.page.locator(".sender").first).to_have_text("<svg/onload=alert('profile')>")
    await ann.page.locator(".thread-who").click()
    await expect(ann.page.get_by_role("dialog")).to_contain_text(name)
    await expect(ann.page.get_by_role("dialog")).to_contain_text("<svg/onload=alert('profile')>")


async def test_what_is_pinned_saved_answered_and_found_stays_text(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    attack, name = "<img src=x onerror=alert(1)> walrus", "<b onclick=alert(2)>open</b>"
    channel = await seeds.create(you, "channel", [me], name)
    await seeds.say(you, channel, attack)
    rest = people.node.rest
    for method, path, body in (
        ("PUT", f"/v1/conversations/{channel}/messages/1/pin", None),
        ("PUT", f"/v1/saved/{channel}/1", None),
        ("POST", f"/v1/conversations/{channel}/messages", {"text": attack, "thread_seq": 1}),
    ):
        status, answer = await asyncio.to_thread(rest, method, path, body, me)
        assert status < 300, answer
    ann = await (await people(me)).open(channel)
    strange = ann.page.locator("main :is(img, b), dialog :is(img, b)")
    await expect(ann.page.locator(".pinbar")).to_contain_text(attack)
    await ann.page.locator(".thread-line").click()
    await expect(ann.page.locator(".side .text")).to_have_text([attack, attack])
    await expect(strange).to_have_count(0)
    await ann.page.get_by_label("All pinned messages").click()
    await expect(ann.page.locator(".listed")).to_contain_text(attack)
    await expect(strange).to_have_count(0)
    await ann.dismiss()
    for menu, entry in (("Your account", "Saved messages"), ("Threads", None)):
        await ann.page.get_by_label(menu, exact=True).first.click()
        if entry:
            await ann.page.get_by_role("menuitem", name=entry).click()
        await expect(ann.page.locator(".listed")).to_contain_text(name)
        await expect(ann.page.locator(".listed")).to_contain_text(attack)
        await expect(strange).to_have_count(0)
        await ann.dismiss()
    await ann.page.keyboard.press("Control+k")
    await ann.page.keyboard.type("walrus")
    await expect(ann.page.locator(".quick-row .hit").first).to_contain_text("<img src=x onerror=alert(1)> walrus")
    await expect(strange).to_have_count(0)


async def test_the_policy_forbids_what_a_hole_would_need(people: People, named: Named) -> None:
    ann = await people(named("ann"))
    script = """() => {
      try { document.body.append(Object.assign(document.createElement('script'), { text: 'alert(1)' })) }
      catch (error) { return error.name }
    }"""
    assert await ann.page.evaluate(script) == "TypeError"
    style = """() => new Promise((done) => {
      addEventListener('securitypolicyviolation', (event) => done(event.violatedDirective));
      document.body.setAttribute('style', 'display: none');
    })"""
    assert await ann.page.evaluate(style) == "style-src-attr"
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while len(ann.complaints) < 2:
            await ann.frames()
    assert len(ann.complaints) == 2, ann.complaints
    ann.complaints.clear()  # these were asked for


async def test_the_page_has_no_way_to_make_markup_of_text() -> None:
    ways = re.compile(r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|Function|setHTML\w*)\b\s*[=(]")
    found = {file.name: ways.findall(file.read_text("utf-8")) for file in sorted(APP.rglob("*.js"))}
    assert len(found) > 10 and {name: hits for name, hits in found.items() if hits} == {}


async def test_a_browser_that_forbids_storage_still_shows_the_page(people: People, seeds: Seeds, named: Named) -> None:
    me, you = named("ann"), named("bob")
    direct = await seeds.direct(you, me)
    await seeds.say(you, direct, "hello")
    ann = await people(me, is_in=False)
    await ann.page.add_init_script(
        "for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name,"
        " { get() { throw new DOMException('forbidden', 'SecurityError') } })"
    )
    await (await ann.enter(people.node.token(me))).open(direct)
    await ann.send("hello you")
    await ann.sees_tick("hello you", "sent")
    field = ann.page.get_by_role("textbox", name="Message", exact=True)
    await field.fill("begun")
    await ann.message("hello you").locator(".text").hover()
    await ann.message("hello you").get_by_label("Message menu").click()
    await ann.page.get_by_role("menuitem", name="Edit").click()
    await ann.page.get_by_label("Stop", exact=True).click()
    await expect(field).to_have_value("begun")
