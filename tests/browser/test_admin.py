"""The admin page in a real browser, at two real nodes: what it shows is true, and its buttons do what they say."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from tests.browser.test_access import findings
from tests.browser.test_pictures import PHONE
from tests.support.browser.people import People, Person
from tests.support.browser.pictures import KEPT, picture
from tests.support.browser.seeding import Seeds
from tests.support.devices.plain_client import Client
from tests.support.nodes.node_process import NodeProcess
from tidings.gateway.auth import hash_api_key

Named = Callable[[str], str]
Visit = Callable[..., Awaitable["Operator"]]
LIMITS = {"TIDINGS_LIMITS_SEND": "20/600s", "TIDINGS_LIMITS_HTTP": "off", "TIDINGS_LIMITS_READ": "off"}
ROLES = ("admin", "readonly")
VIEWS = (
    *("overview", "nodes", "users", "conversations", "reports", "webhooks", "keys", "rejects", "audit", "push", "cold"),
    *("settings", "doctor"),
)
TICKS = """async ([most, isWhole]) => {
  const { niceMax, tickDigits } = await import('/web/admin/charts.js');
  const { rate } = await import('/web/admin/figures.js');
  const top = niceMax(most, isWhole);
  return [0, 1, 2, 3, 4].map((tick) => rate((top * tick) / 4, tickDigits(top)));
}"""
LOADED = {
    "reports": ".none, .card",
    "webhooks": ".none, .card",
    "keys": "tbody tr",
    "nodes": "[data-node]",
    "audit": ".card",
    "settings": "table",
    "doctor": ".finding",
}


@pytest.fixture(scope="module")
def north(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("admin")
    with NodeProcess(folder / "data", {**LIMITS, "TIDINGS_NODE_ID": "north"}, ["--dev"]) as node:
        yield node.start()


@pytest.fixture(scope="module")
def keys(north: NodeProcess) -> dict[str, str]:
    """By role."""
    made = {role: north.tidings("key", "create", "--name", f"ops-{role}", "--role", role) for role in ROLES}
    return {role: done.stdout.strip() for role, done in made.items()}


class Operator(Person):
    """Somebody at the admin page."""

    async def sign_in(self, key: str) -> Operator:
        await self.page.goto(f"{self.url}/admin")
        await self.page.get_by_label("API key").fill(key)
        await self.page.keyboard.press("Enter")
        return self

    async def view(self, name: str, id: str = "") -> None:
        await self.page.evaluate("hash => { location.hash = hash }", f"#/{name}/{id}" if id else f"#/{name}")
        await self.page.wait_for_selector(f".view-{name} h1")

    def tile(self, label: str) -> Locator:
        tiles = self.page.locator(".tile", has=self.page.locator("dt", has_text=re.compile(f"^{re.escape(label)}$")))
        return tiles.locator("dd")

    def card(self, title: str) -> Locator:
        return self.page.get_by_role("region", name=title, exact=True).first

    async def press(self, name: str) -> None:
        """A button, and the one that confirms it."""
        await self.page.get_by_role("button", name=name, exact=True).click()
        dialog = self.page.get_by_role("dialog")
        await dialog.locator("button.danger").click()
        await expect(dialog).to_have_count(0)


@pytest_asyncio.fixture(loop_scope="session")
async def seeds(north: NodeProcess) -> AsyncIterator[Seeds]:
    async with Seeds(north) as seeds:
        yield seeds


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, north: NodeProcess) -> AsyncIterator[Visit]:
    people = People(browser, north)

    async def visit(key: str | None = None, **shape: Any) -> Operator:
        person = await people("operator", is_in=False, **shape)
        operator = Operator("operator", person.url, person.context, person.page)
        people.everybody[-1] = operator
        if key is not None:
            await operator.sign_in(key)
            await operator.page.wait_for_selector(".view h1")
        return operator

    yield visit
    assert await people.close() == []


async def talk(seeds: Seeds, conversation_id: str, user_ids: list[str], seconds: float) -> None:
    """Each says something every other second or so, for a picture of a lively hour."""
    clients = [await seeds.client(user_id) for user_id in user_ids]
    loop = asyncio.get_running_loop()
    end_s, number = loop.time() + seconds, 0
    while loop.time() < end_s:
        for client in clients[number % 3 :: 1 + number % 2]:
            await client.say(conversation_id, f"t{number}-{client.hello['connection_id']}")
        number += 1
        await asyncio.sleep(1.2 + 0.4 * (number % 3))


async def flood(seeds: Seeds, user_id: str, conversation_id: str, count: int) -> int:
    """Sends as fast as it can; how many were refused."""
    client = await seeds.client(user_id)
    asked = [
        client.ask("message.send", conversation_id=conversation_id, message_id=f"f{number}", text="again")
        for number in range(count)
    ]
    return sum(answer["type"] == "error" for answer in await asyncio.gather(*asked))


async def test_nobody_gets_in_without_an_api_key(visit: Visit, north: NodeProcess, keys: dict[str, str]) -> None:
    stranger = await visit()
    for bad in ("nonsense", north.token("ann")):
        await stranger.sign_in(bad)
        await expect(stranger.page.get_by_role("alert")).to_have_text("That is not a valid API key.")
    await stranger.sign_in(keys["admin"])
    await expect(stranger.page.get_by_role("heading", name="Overview")).to_be_visible()
    assert await stranger.context.cookies() == []
    await stranger.page.reload()
    await expect(stranger.page.get_by_role("heading", name="Overview")).to_be_visible()
    await stranger.page.get_by_role("button", name="Sign out").click()
    await expect(stranger.page.get_by_label("API key")).to_be_visible()
    assert await stranger.page.evaluate("sessionStorage.length") == 0


async def test_each_view_shows_what_the_node_did(
    visit: Visit, seeds: Seeds, keys: dict[str, str], named: Named
) -> None:
    ann, bob = named("ann"), named("bob")
    group = await seeds.create(ann, "group", [bob], "Night shift")
    await seeds.say(ann, group, *(f"secret words {number}" for number in range(12)))
    ops = await visit(keys["admin"])
    await expect(ops.tile("Connections")).to_have_text("2")  # ann, and the greeter of `--dev`
    await expect(ops.page.get_by_role("img", name=re.compile("Daily active users"))).to_be_visible()
    await ops.view("nodes")
    await expect(ops.page.locator('[data-node="north"]')).to_contain_text("answers this page")
    await ops.view("users", bob)
    await expect(ops.tile("Unread")).to_have_text("12")
    await ops.page.get_by_role("button", name="Verify now").click()
    await expect(ops.page.get_by_text("1 conversation recounted from the tables, no difference.")).to_be_visible()
    await ops.page.get_by_role("link", name=group).click()
    await expect(ops.tile("Head")).to_have_text("12")
    await expect(ops.card("Members").locator("tbody tr")).to_have_count(2)
    assert "secret words" not in await ops.page.content()
    refused = await flood(seeds, ann, group, 30)
    assert refused == 22
    await ops.view("rejects")
    await expect(ops.tile("Refused")).to_have_text(str(refused))
    await expect(ops.page.locator(".card", has_text="Most refused").get_by_role("link", name=ann).first).to_be_visible()
    await ops.view("settings")
    await ops.page.get_by_label("Filter").fill("limits.send")
    await expect(ops.page.locator("tbody tr")).to_have_count(1)
    await expect(ops.page.locator("tbody tr")).to_contain_text("environment TIDINGS_LIMITS_SEND")
    await ops.view("push")
    await expect(ops.tile("Dead letters")).to_have_text("0")
    await ops.view("cold")
    await expect(ops.tile("Segments")).to_have_text("0")
    await ops.view("doctor")
    await ops.page.get_by_role("button", name="Examine now").click()
    await expect(ops.page.locator(".finding-wrong").first).to_contain_text("Fix")


async def test_an_axis_says_what_its_lines_mean(visit: Visit, keys: dict[str, str]) -> None:
    ops = await visit(keys["admin"])
    for most, is_whole, ticks in (
        (0, True, "0 1 2 3 4"),
        (1, True, "0 1 2 3 4"),
        (5, True, "0 2 4 6 8"),
        (9, True, "0 3 6 9 12"),
        (10, True, "0 5 10 15 20"),
        (51, True, "0 15 30 45 60"),
        (99, True, "0 25 50 75 100"),
        (9_001, True, "0 2,500 5,000 7,500 10K"),
        (0, False, "0 0.25 0.5 0.75 1"),
        (0.15, False, "0 0.05 0.1 0.15 0.2"),
        (0.9, False, "0 0.25 0.5 0.75 1"),
        (1.1, False, "0 0.5 1 1.5 2"),
        (9, False, "0 2.5 5 7.5 10"),
    ):
        assert await ops.page.evaluate(TICKS, [most, is_whole]) == ticks.split(), most
    for title in ("Connections", "Daily active users"):
        chart = ops.page.get_by_role("img", name=re.compile(f"^{title}"))
        await expect(chart.locator(".chart-grid + .chart-text")).to_have_text(["0", "1", "2", "3", "4"])
    labels = ops.page.get_by_role("img", name=re.compile("^Time to acknowledge")).locator(".chart-grid + .chart-text")
    await expect(labels.first).to_have_text("0 ms")
    room = """label => {
      label.textContent = '0.25 ms';
      return label.getBoundingClientRect().left - label.ownerSVGElement.getBoundingClientRect().left;
    }"""
    assert await labels.first.evaluate(room) >= 0


async def test_a_figure_that_is_not_of_now_says_how_old_it_is(visit: Visit, keys: dict[str, str]) -> None:
    ops = await visit(keys["admin"])
    drawn = """async () => {
      const { tile } = await import('/web/admin/parts.js');
      const one = tile('Ack p99', true);
      one.set('9 ms', [null, 4, 9, null, null], '40 s ago');
      const [fill, line] = [...one.node.querySelectorAll('path')].map((path) => path.getAttribute('d'));
      const old = one.node.querySelector('dt').textContent;
      one.set('8 ms', [4, 8]);
      return [old, fill, line, one.node.querySelector('dt').textContent];
    }"""
    line = "M25.0 15.3L50.0 2.0"
    assert await ops.page.evaluate(drawn) == ["Ack p99, 40 s ago", f"{line}L50.0 28L25.0 28Z", line, "Ack p99"]


async def test_the_audit_says_that_a_sign_in_failed_and_how_to_follow_it(
    visit: Visit, north: NodeProcess, keys: dict[str, str]
) -> None:
    ops = await visit(keys["admin"])
    refused = await ops.context.request.get(f"{ops.url}/v1/inbox", headers={"Authorization": "Bearer nonsense"})
    assert refused.status == 401
    await ops.view("audit")
    await expect(ops.page.locator(".lead code")).to_have_text(["tidings audit tail --follow", "tidings audit replay"])
    assert "`" not in await ops.page.inner_text(".lead")
    await expect(ops.page.locator("tbody .pill", has_text="failed sign-in").first).to_be_visible()


@pytest.mark.long
async def test_the_page_says_when_the_node_is_lost_and_goes_on_when_it_is_back(
    visit: Visit, keys: dict[str, str]
) -> None:
    ops = await visit(keys["admin"])
    await expect(ops.page.locator(".view-actions .pill")).to_have_text("live")
    await ops.context.set_offline(True)
    await expect(ops.page.get_by_text("This node does not answer just now. Trying again…")).to_be_visible()
    await ops.context.set_offline(False)
    await expect(ops.page.locator(".view-actions .pill")).to_have_text("live")
    await ops.page.route("**/v1/admin/overview*", lambda route: route.fulfill(status=401, body="{}"))
    await expect(ops.page.get_by_role("alert")).to_have_text("That key is not valid any more.")


async def test_a_key_that_was_refused_is_not_taken_for_a_user(
    visit: Visit, north: NodeProcess, keys: dict[str, str], named: Named
) -> None:
    name = named("partner")
    key = north.tidings("key", "create", "--name", name).stdout.strip()
    north.tidings("limits", "set", "--key", name, "--class", "http", "--limit", "0/60s")
    ops = await visit(keys["admin"])
    async with asyncio.timeout(60):
        while (await ops.context.request.get(f"{ops.url}/v1/rate_limits", headers={"X-Api-Key": key})).status != 429:
            await asyncio.sleep(0.1)
    who = f"API key {hash_api_key(key)[:8]}"
    for view in ("rejects", "audit"):
        await ops.view(view)
        await expect(ops.page.get_by_role("cell", name=who).first).to_be_visible()
    assert await ops.page.get_by_role("link", name="key-").count() == 0


async def test_a_kick_and_a_revocation_close_the_sockets_and_are_audited(
    visit: Visit, north: NodeProcess, keys: dict[str, str], named: Named
) -> None:
    ann = named("ann")
    first = await Client(north.port, north.token(ann)).connect(device="phone")
    ops = await visit(keys["admin"])
    await ops.view("users", ann)
    await expect(ops.card("Connections")).to_contain_text("phone")
    await ops.press("Kick")
    await asyncio.wait_for(first.is_lost.wait(), 60)
    assert first.close_code == 4014
    await expect(ops.page.get_by_text("Closed 1 connection.")).to_be_visible()
    second = await Client(north.port, north.token(ann)).connect()
    await ops.press("Revoke tokens")
    await asyncio.wait_for(second.is_lost.wait(), 60)
    assert second.close_code == 4503
    await ops.page.get_by_role("button", name="Mint a token").click()
    token = await ops.page.get_by_label("Token", exact=True).input_value()
    async with Client(north.port, token):
        await ops.dismiss()
        await ops.view("audit")
        rows = ops.page.locator("tbody tr", has_text=ann)
        for deed in ("user.kick", "revoke", "user.token"):
            await expect(rows.filter(has_text=deed)).to_contain_text("ops-admin")


async def test_a_readonly_key_may_look_and_not_act(visit: Visit, keys: dict[str, str], named: Named) -> None:
    reader = await visit(keys["readonly"])
    await expect(reader.page.locator(".whoami")).to_contain_text("read only")
    await reader.view("nodes")
    await expect(reader.page.get_by_role("button", name="Drain north")).to_be_disabled()
    await reader.view("users", named("ann"))
    for deed in ("Kick", "Revoke tokens", "Mint a token"):
        await expect(reader.page.get_by_role("button", name=deed)).to_be_disabled()
    path, key = f"{reader.url}/v1/admin/nodes/north/drain", keys["readonly"]
    assert (await reader.context.request.post(path, headers={"X-Api-Key": key})).status == 403


async def test_a_second_node_is_drained_by_its_button(
    visit: Visit, north: NodeProcess, keys: dict[str, str], tmp_path: Path, named: Named
) -> None:
    env = {
        **LIMITS,
        "TIDINGS_NODE_ID": "south",
        "TIDINGS_KEYSPACE": f"unix://{north.socket}",
        "TIDINGS_TABLES": f"sqlite://{north.data}/tidings.db",
    }
    with NodeProcess(tmp_path / "south", env) as south:
        await asyncio.to_thread(south.start)
        client = await Client(south.port, south.token(named("ann"))).connect()
        ops = await visit(keys["admin"])
        await ops.view("nodes")
        card = ops.page.locator('[data-node="south"]')
        await expect(card.get_by_text("Connections").locator("xpath=following-sibling::dd")).to_have_text("1")
        await ops.press("Drain south")
        draining = await client.event(lambda frame: frame["type"] == "draining")
        assert draining["reconnect_in_ms"] >= 0
        await asyncio.wait_for(client.is_lost.wait(), 60)
        assert client.close_code == 4001
        assert await asyncio.to_thread(south.ended) == 0, south.said()
        await expect(card).to_have_count(0)
        await expect(ops.page.locator('[data-node="north"]')).to_be_visible()


@pytest.mark.long
async def test_axe_finds_nothing_on_any_view(visit: Visit, seeds: Seeds, keys: dict[str, str], named: Named) -> None:
    ann = named("ann")
    group = await seeds.create(ann, "group", [named("bob")], "Night shift")
    await seeds.say(ann, group, "one")
    ops = await visit()
    await ops.page.goto(f"{ops.url}/admin")
    await ops.page.wait_for_selector("#key")
    found = await findings(ops, "sign-in")
    await ops.sign_in(keys["admin"])
    for name in VIEWS:
        await ops.view(name, {"users": ann, "conversations": group}.get(name, ""))
        if name == "doctor":
            await ops.page.get_by_role("button", name="Examine now").click()
        await ops.page.wait_for_selector(LOADED.get(name, ".tile"))
        found += await findings(ops, name)
    await ops.view("nodes")
    await ops.page.get_by_role("button", name="Drain north").click()
    found += await findings(ops, "a question")
    assert "\n".join(found) == ""


@pytest.mark.long
async def test_the_page_fits_a_phone_and_its_pictures_are_drawn(
    visit: Visit, seeds: Seeds, keys: dict[str, str], tmp_path: Path, named: Named
) -> None:
    folder = KEPT if os.environ.get("PICTURES") else tmp_path
    ann, others = named("ann"), [named(name) for name in ("ben", "cleo", "dana", "elif", "farid", "grace", "hugo")]
    group = await seeds.create(ann, "group", others, "Night shift")
    await seeds.say(ann, group, "one", "two", "three")
    ops = await visit(keys["admin"], viewport={"width": 1280, "height": 860})
    await talk(seeds, group, others, 45 if os.environ.get("PICTURES") else 1)
    await expect(ops.page.locator(".chart-stroke").first).to_be_attached()
    await picture(ops, folder / "admin-overview.png")
    await ops.view("conversations", group)
    await expect(ops.tile("Head")).to_have_text(re.compile("[1-9]"))
    await picture(ops, folder / "admin-conversation.png")
    await ops.page.emulate_media(color_scheme="dark")
    await ops.view("doctor")
    await ops.page.get_by_role("button", name="Examine now").click()
    await ops.page.wait_for_selector(".finding")
    await picture(ops, folder / "admin-doctor-dark.png")
    phone = await visit(keys["admin"], **PHONE)
    for name in VIEWS:
        await phone.view(name, {"users": ann, "conversations": group}.get(name, ""))
        if name != "doctor":
            await phone.page.wait_for_selector(LOADED.get(name, ".tile"))
        wide = await phone.page.evaluate("document.querySelector('.view').scrollWidth - innerWidth")
        assert wide <= 0, name
    await phone.view("users", ann)
    await expect(phone.tile("Unread")).to_have_text(re.compile("[1-9]"))
    await picture(phone, folder / "admin-phone.png")
