"""The JavaScript client's own tests (clients/js/test, by node:test), each file a test here: real servers and sockets.

The journey is short here and long under `long`. What only a browser has is in test_js_browser.py.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.paths import PYTHONPATH
from tests.support.servers.azurite import azurite as azurite
from tests.support.servers.cutting_store import CREDENTIALS, KINDS, cutting
from tests.support.servers.moto_server import s3 as s3

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "clients" / "js" / "test"
STORE = "store.test.js"  # needs an object store
NODE_MAJOR_MIN = 18
TIMEOUT_S = 380


def node() -> str:
    """The program, or a failure that names it."""
    found = shutil.which("node") or shutil.which("nodejs")
    if found is None:
        pytest.fail(f"Node.js {NODE_MAJOR_MIN} or newer is not installed: the JavaScript client cannot be tested")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    major = int(said.lstrip("v").split(".")[0])
    if major < NODE_MAJOR_MIN:
        pytest.fail(f"Node.js is {said.strip()}; the JavaScript client's tests need {NODE_MAJOR_MIN} or newer")
    return found


def run(file: str, env: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> int:
    """How many tests of this file passed; a failure shows what it said."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    ours |= {"PYTHONPATH": PYTHONPATH, "TIDINGS": f"{sys.executable} -m tidings", **(env or {})}
    words = [node(), "--test", "--test-reporter=tap", str(TESTS / file)]
    done = subprocess.run(words, env=ours, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None, done.stdout
    return int(passed[1])


@pytest.mark.parametrize("file", sorted({file.name for file in TESTS.glob("*.test.js")} - {STORE}))
def test_the_javascript_client(file: str) -> None:
    assert run(file) > 0


@pytest.mark.parametrize(("kind", "uploads"), KINDS)
@pytest.mark.timeout(400)
async def test_an_upload_of_the_javascript_client_that_is_cut_goes_on_with_the_part_that_was_cut(
    kind: str, uploads: int, request: pytest.FixtureRequest
) -> None:
    async with cutting(kind, request) as store:
        env = {"STORE": store.url, "FILES": str(uploads), **CREDENTIALS}
        assert await asyncio.to_thread(run, STORE, env) == 1
        store.check(uploads)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_long_journey_of_the_javascript_client_over_a_network_that_fails() -> None:
    assert run("journey.test.js", {"JOURNEY_MESSAGES": "2700", "JOURNEY_CUT_MS": "60"}) == 1
