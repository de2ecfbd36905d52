"""From a clone to two people who have written to each other: `make run`, the two links that it prints, and the page.

The test says how long each step took. It asserts only that the steps come, because the time belongs to the machine.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.support.browser.people import Person
from tests.support.paths import ROOT
from tidings_proof.world.ports import free_port

PATIENCE_S = 600
WAIT_MS = 120_000
OURS = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")


@contextmanager
def running(clone: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`make` in the clone, without the environment of these tests. It ends with the block."""
    env = {name: value for name, value in os.environ.items() if name not in OURS and not name.startswith("TIDINGS_")}
    env["PATH"] = os.pathsep.join(part for part in env["PATH"].split(os.pathsep) if ".venv" not in part)
    made = subprocess.Popen(
        ["make", *words], cwd=clone, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield made
    finally:
        os.killpg(made.pid, signal.SIGTERM)
        made.wait(60)


def links_of(run: subprocess.Popen[str]) -> dict[str, str]:
    """The two links, by user, once the node has printed them."""
    assert run.stdout is not None
    for line in run.stdout:
        if found := re.findall(r"(http://\S+/\?as=(\w+))", line):
            return {user_id: url for url, user_id in found}
    raise AssertionError("the node ended before it printed its links")


async def entered(browser: Browser, url: str, user_id: str) -> Person:
    context = await browser.new_context()
    page = await context.new_page()
    person = Person(user_id, url, context, page)
    page.set_default_timeout(WAIT_MS)
    await page.goto(url)
    await page.wait_for_selector(".row, .inbox-empty:not([hidden])")
    return person


@pytest.mark.long
@pytest.mark.timeout(PATIENCE_S)
async def test_two_people_write_to_each_other_after_a_clone_and_make_run(browser: Browser, tmp_path: Path) -> None:
    began_s = time.monotonic()
    steps: list[str] = []

    def reached(step: str) -> None:
        steps.append(step)
        print(f"{step}: {time.monotonic() - began_s:.1f} s")

    clone = tmp_path / "tidings"
    await asyncio.to_thread(subprocess.run, ["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    reached("cloned")
    port = free_port()
    with running(clone, "run", f"ARGS=--port {port}") as run:
        links = await asyncio.to_thread(links_of, run)
        reached("serving")
        alice = await entered(browser, links["alice"], "alice")
        bob = await entered(browser, links["bob"], "bob")
        reached("signed in")
        await alice.page.get_by_role("button", name="New conversation").first.click()
        await alice.write_to("bob")
        await alice.send("hello bob")
        await bob.row("alice").click()
        await expect(bob.message("hello bob")).to_be_visible(timeout=WAIT_MS)
        await bob.send("hello alice")
        await expect(alice.message("hello alice")).to_be_visible(timeout=WAIT_MS)
        reached("answered")
        for person in (alice, bob):
            assert person.complaints == []
            await person.context.close()
    began_s = time.monotonic()
    with running(clone, "run", f"ARGS=--port {port}") as run:  # what is pasted once is pasted again
        again = await entered(browser, (await asyncio.to_thread(links_of, run))["bob"], "bob")
        await again.row("alice").click()
        await expect(again.message("hello alice")).to_be_visible(timeout=WAIT_MS)
        reached("there again")
        await again.context.close()
    assert steps == ["cloned", "serving", "signed in", "answered", "there again"]
