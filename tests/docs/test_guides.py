"""The token endpoints of docs/use/tokens.md in FastAPI, Django and Express: run as pasted, twice, with real packages.

The pages leave the login to the reader. Each test adds one, asks for a token without it and with it, and has a node
accept the token. The packages are fetched by these long tests alone: requirements/guides.txt and tests/docs/express.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.code_blocks import blocks_of
from tests.support.nodes.node_process import NodeProcess
from tests.support.paths import ROOT
from tidings_proof.world.ports import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PAGE = ROOT / "docs" / "use" / "tokens.md"
EXPRESS = ROOT / "tests" / "docs" / "express"
PORT_ON_PAGE = "app.listen(3000,"
SECRET = "a-secret-of-the-tests-that-is-long-enough"
READY_S = 60.0
FASTAPI_LOGIN = """
from fastapi import Request
from main import app

@app.post("/login")
def login(request: Request) -> None:
    request.session["user_id"] = "alice"
"""
DJANGO_SITE = """
import json, sys
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="your own", ROOT_URLCONF="urls", ALLOWED_HOSTS=["*"], LOGIN_URL="/login",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
                "django.middleware.csrf.CsrfViewMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db"}},
)
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

call_command("migrate", verbosity=0)
user, _ = User.objects.get_or_create(username="alice")
client = Client()
stranger = client.post("/token").status_code
client.force_login(user)
answer = client.post("/token")
facts = [stranger, client.get("/token").status_code, answer["Cache-Control"], answer.json()["token"], str(user.pk)]
print(json.dumps(facts))
"""
EXPRESS_LOGIN = """
import express from 'express';

const { listen } = express.application;
express.application.listen = function (...where) {
  this.post('/login', (request, response) => {
    request.session.userId = 'alice';
    response.sendStatus(204);
  });
  return listen.apply(this, where);
};
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("guides") / "data", {"TIDINGS_AUTH_SECRET": SECRET}) as node:
        yield node.start()


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FastAPI and Django, in a folder of their own."""
    folder = tmp_path_factory.mktemp("packages")
    lock = str(ROOT / "requirements" / "guides.txt")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-qq", "--no-deps"]
    ran = subprocess.run(
        [*pip, "--target", str(folder), "--require-hashes", "-r", lock], capture_output=True, text=True
    )
    if ran.returncode:
        pytest.skip(f"guides.txt cannot be installed: {ran.stderr.strip()[-200:]}")
    return folder


@pytest.fixture
def pasted(tmp_path: Path) -> Path:
    """A folder with the files of the page."""
    for block in blocks_of(PAGE, "python", "js"):
        assert block.file is not None
        (tmp_path / block.file).write_text(block.text)
    return tmp_path


def environment(*folders: Path) -> dict[str, str]:
    """The reader's: the packages, and the client of this repository with what it needs."""
    path = [*map(str, folders), str(ROOT / "clients" / "python" / "src"), sysconfig.get_path("platlib")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "TIDINGS_AUTH_SECRET": SECRET}


def posted(port: int, path: str, cookie: str = "") -> tuple[int, Mapping[str, str], bytes]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    link.request("POST", path, headers={"Cookie": cookie})
    answer = link.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


@contextmanager
def serving(words: list[str], folder: Path, env: Mapping[str, str], port: int) -> Iterator[None]:
    """The reader's server. It ends with the block."""
    log = folder / "server.log"
    with log.open("ab") as output:
        server = subprocess.Popen(words, cwd=folder, env=env, stdout=output, stderr=output)
    try:
        deadline_s = time.monotonic() + READY_S
        while not answers(port):
            assert server.poll() is None and time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.05)
        yield
    finally:
        server.kill()
        server.wait()


def answers(port: int) -> bool:
    with suppress(OSError):
        return posted(port, "/nothing")[0] == 404
    return False


def check_endpoint(port: int, node: NodeProcess) -> None:
    """Nobody gets a token without a login. With it, everybody gets their own, and no cache keeps it."""
    assert posted(port, "/token")[0] == 401
    status, facts, _ = posted(port, "/login")  # the cookie of a session
    assert status in (200, 204)
    status, facts, body = posted(port, "/token", facts["set-cookie"].split(";")[0])
    assert (status, facts["cache-control"]) == (200, "no-store")
    token = json.loads(body)["token"]
    assert is_taken(node, token, "alice") and not is_taken(node, token, "bob")


def is_taken(node: NodeProcess, token: str, user_id: str) -> bool:
    """Whether the node takes the bearer for this user: people write their own profile and no other."""
    link = http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)
    facts = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    link.request("PUT", f"/v1/users/{user_id}", json.dumps({"name": "A reader"}), facts)
    return link.getresponse().status == 200


def test_the_endpoint_in_fastapi_gives_a_token_that_a_node_takes_twice(
    packages: Path, pasted: Path, node: NodeProcess
) -> None:
    (pasted / "login.py").write_text(FASTAPI_LOGIN)
    for _ in range(2):
        port = free_port()
        words = [sys.executable, "-m", "uvicorn", "login:app", "--port", str(port)]
        with serving(words, pasted, environment(packages), port):
            check_endpoint(port, node)


def test_the_endpoint_in_django_gives_a_token_that_a_node_takes_twice(
    packages: Path, pasted: Path, node: NodeProcess
) -> None:
    (pasted / "run_site.py").write_text(DJANGO_SITE)
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "run_site.py"], cwd=pasted, env=environment(packages), capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        stranger, by_get, kept, token, user_id = json.loads(ran.stdout)
        assert (stranger, by_get) == (302, 405)  # to the login, and POST alone
        assert "no-store" in kept
        assert is_taken(node, token, user_id) and not is_taken(node, token, "bob")


def test_the_endpoint_in_express_gives_a_token_that_a_node_takes_twice(pasted: Path, node: NodeProcess) -> None:
    npm, program = shutil.which("npm"), shutil.which("node")
    if npm is None or program is None:
        pytest.skip("npm is missing: Express cannot be installed")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(EXPRESS / name, pasted)
    ran = subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=pasted, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    (pasted / "login.mjs").write_text(EXPRESS_LOGIN)
    text = (pasted / "server.mjs").read_text()
    assert PORT_ON_PAGE in text
    for _ in range(2):
        port = free_port()
        (pasted / "server.mjs").write_text(text.replace(PORT_ON_PAGE, f"app.listen({port},"))
        words = [program, "--import", "./login.mjs", "server.mjs"]
        with serving(words, pasted, environment(), port):
            check_endpoint(port, node)
