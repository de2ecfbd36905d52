"""What somebody else wrote stays text: markup, scripts, addresses, names, in every place where the page shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import expect

from tests.support.browser.people import People
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
    while not set(CORPUS) <= seen:
        before = len(seen)
        seen |= set(await ann.texts())
        await ann.page.eval_on_selector(".thread-view", "el => { el.scrollTop -= 400 }")
        await ann.frames()
        assert len(seen) > before or await ann.page.eval_on_selector(".thread-view", "el => el.scrollTop > 0")
    strange = ".thread :is(script, img, iframe, style, math, template, form:not(.composer))"
    await expect(ann.page.locator(strange)).to_have_count(0)
    hrefs = await ann.page.eval_on_selector_all(".messages a", "els => els.map(el => el.href)")
    assert all(href.startswith("https://example.com/") for href in hrefs), hrefs
    await expect(ann.page.locator(".sender").first).to_have_text("<svg/onload=alert('profile')>")
    await ann.page.locator(".thread-who").click()
    await expect(ann.page.get_by_role("dialog")).to_contain_text(name)
    await expect(ann.page.get_by_role("dialog")).to_contain_text("<svg/onload=alert('profile')>")


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
