"""The admin page, further views: lists with their search, keys, reports, webhooks, and the data of a person."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

from playwright.async_api import expect

from tests.browser.test_admin import Named, Visit, keys, north, seeds, visit
from tests.support.browser.seeding import Seeds
from tests.support.nodes.node_process import NodeProcess
from tidings_proof.world.ports import free_port

__all__ = ["keys", "north", "seeds", "visit"]  # fixtures


async def test_people_and_conversations_are_found_by_a_part_of_their_names(
    visit: Visit, seeds: Seeds, keys: dict[str, str], named: Named
) -> None:
    ann, bob = named("annegret"), named("bob")
    group = await seeds.create(ann, "group", [bob], f"Trip of {bob}")
    await seeds.say(ann, group, "secret words")
    ops = await visit(keys["readonly"])
    await ops.view("users")
    await ops.page.get_by_label("Name or id").fill(ann[2:].upper())
    await ops.page.get_by_role("button", name="Search").click()
    await expect(ops.page.locator("tbody tr")).to_have_count(1)
    await ops.page.get_by_role("link", name=ann).click()
    await expect(ops.card("Profile")).to_contain_text(ann)
    await ops.view("conversations")
    await ops.page.get_by_label("Name or id").fill(f"trip of {bob}")
    await ops.page.keyboard.press("Enter")
    await expect(ops.page.locator("tbody tr")).to_have_count(1)
    assert "secret words" not in await ops.page.content()
    await ops.page.get_by_role("link", name=group).click()
    await expect(ops.card("Members").locator("tbody tr")).to_have_count(2)
    await ops.view("conversations")
    await ops.page.get_by_label("Name or id").fill("nothing is named so")
    await ops.page.keyboard.press("Enter")
    await expect(ops.page.get_by_text("There is no such conversation.")).to_be_visible()


async def test_a_key_is_made_shown_once_and_revoked(visit: Visit, keys: dict[str, str], named: Named) -> None:
    name = named("wall")
    ops = await visit(keys["admin"])
    await ops.view("keys")
    await ops.page.get_by_label("Name").fill(name)
    await ops.page.get_by_label("Role").select_option("readonly")
    await ops.page.get_by_role("button", name="Make a key").click()
    key = await ops.page.get_by_label("Key", exact=True).input_value()
    assert key.startswith("tk_")
    await ops.dismiss()
    row = ops.page.locator("tbody tr", has_text=name)
    await expect(row).to_contain_text("read only")
    await expect(ops.page.locator("dialog")).to_have_count(0)  # a closed one goes a moment later
    assert key not in await ops.page.content()
    reader = await visit(key)
    await reader.view("keys")
    await expect(reader.page.get_by_role("button", name="Make a key")).to_be_disabled()
    await row.get_by_role("button", name="Revoke").click()
    await ops.page.get_by_role("dialog").locator("button.danger").click()
    await expect(row).to_have_count(0)
    await expect(reader.page.get_by_role("button", name="Revoke").first).to_be_disabled()


async def test_a_moderator_decides_a_report_and_sees_nothing_else(
    visit: Visit, seeds: Seeds, north: NodeProcess, named: Named
) -> None:
    ann, bob = named("ann"), named("bob")
    group = await seeds.create(ann, "group", [bob], "Night shift")
    await seeds.say(ann, group, f"rude words to {bob}")
    status, _ = north.rest("POST", f"/v1/conversations/{group}/messages/1/report", {"reason": "rude"}, bob)
    assert status == 201
    key = north.tidings("key", "create", "--name", named("mod"), "--role", "moderator").stdout.strip()
    mod = await visit(key)
    report = mod.card(f"Report of {bob}")
    await expect(report).to_contain_text(f"rude words to {bob}")
    await expect(mod.page.get_by_role("navigation", name="Views").get_by_role("link")).to_have_text(["Reports"])
    await report.get_by_role("button", name="Delete the message").click()
    await mod.page.get_by_role("dialog").locator("button.danger").click()
    await expect(report).to_have_count(0)
    status, page = north.rest("GET", f"/v1/conversations/{group}/messages", None, ann)
    assert [one["deleted"] for one in page["messages"] if one["seq"] == 1] == [True]


async def test_a_webhook_that_is_behind_says_so_and_is_removed(
    visit: Visit, seeds: Seeds, north: NodeProcess, keys: dict[str, str], named: Named
) -> None:
    url = f"http://127.0.0.1:{free_port()}/hook"  # nobody listens there
    made = json.loads(
        north.tidings("webhook", "add", "--url", url, "--json", "--hooks-private-addresses", "true").stdout
    )
    ann = named("ann")
    group = await seeds.create(ann, "group", [named("bob")], "Night shift")
    ops = await visit(keys["admin"])
    await ops.view("webhooks")
    hook = ops.card(f"Webhook {made['webhook_id']}")
    await expect(hook).to_contain_text(url)
    await seeds.say(ann, group, "one", "two")
    await expect(hook).to_contain_text(re.compile(r"behind by \d"))
    assert made["secret"] not in await ops.page.content()
    await hook.get_by_role("button", name="Remove").click()
    await ops.page.get_by_role("dialog").locator("button.danger").click()
    await expect(hook).to_have_count(0)


async def test_a_person_is_exported_and_erased(
    visit: Visit, seeds: Seeds, north: NodeProcess, keys: dict[str, str], named: Named, tmp_path: Path
) -> None:
    ann, bob = named("ann"), named("bob")
    group = await seeds.create(ann, "group", [bob], "Night shift")
    await seeds.say(ann, group, "words of ann")
    ops = await visit(keys["admin"])
    await ops.view("users", ann)
    async with ops.page.expect_download() as saved:
        await ops.page.get_by_role("button", name="Export").click()
    file = tmp_path / "export.zip"
    await (await saved.value).save_as(file)
    with zipfile.ZipFile(file) as archive:
        assert "words of ann" in archive.read("export.jsonl").decode()
    await ops.press("Erase")
    await expect(ops.page.get_by_text(re.compile("^Erased: 1 message in [1-9]"))).to_be_visible()
    _, page = north.rest("GET", f"/v1/conversations/{group}/messages", None, bob)
    assert "words of ann" not in str(page)


async def test_the_overview_has_the_last_day(visit: Visit, keys: dict[str, str]) -> None:
    ops = await visit(keys["readonly"])
    for title in ("Last 24 h: messages and deliveries / min", "Last 24 h: connections"):
        chart = ops.page.get_by_role("img", name=title)
        await expect(chart.get_by_text("-20 h")).to_be_attached()
