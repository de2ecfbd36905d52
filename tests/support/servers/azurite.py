"""Azure's blobs for tests: azurite, Microsoft's own emulator, on a free loopback port. It checks what is signed.

npm fetches it by the lock in requirements/azurite into a cache folder outside of the tree (XDG_CACHE_HOME, else
~/.cache). Where that cannot be done the tests that ask for the `azurite` fixture are skipped, and say why.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.servers.moto_server import NotThere
from tidings_proof.world.ports import free_port

LOCK = ROOT / "requirements" / "azurite"
READY_S = 60.0
ACCOUNT = "tidings"
CONTAINER = "files"
KEY = base64.b64encode(b"of-the-tests").decode()
CREDENTIALS = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY}
_VERSION = "2023-11-03"


class Azurite:
    """The server, with one container."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._log = folder / "azurite.log"
        node = shutil.which("node")
        if node is None:
            raise NotThere("node is not installed")
        words = [node, str(_program()), "--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*words, "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"],
                env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._until_ready()
        except BaseException:
            self.stop()
            raise

    def url(self, prefix: str) -> str:
        return f"az://{CONTAINER}/{prefix}?endpoint=http://127.0.0.1:{self.port}/{ACCOUNT}"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _until_ready(self) -> None:
        """Until it has made the container."""
        deadline_s = time.monotonic() + READY_S
        while not self._is_made():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise NotThere(f"azurite does not run: {self._log.read_text()[-300:]}")
            time.sleep(0.05)

    def _is_made(self) -> bool:
        at = formatdate(usegmt=True)
        lines = f"x-ms-date:{at}\nx-ms-version:{_VERSION}\n/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
        made = hmac.digest(base64.b64decode(KEY), ("PUT" + "\n" * 12 + lines).encode(), "sha256")
        signature = base64.b64encode(made).decode()
        headers = {"x-ms-date": at, "x-ms-version": _VERSION, "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
        with suppress(OSError, http.client.HTTPException):
            link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            link.request("PUT", f"/{ACCOUNT}/{CONTAINER}?restype=container", headers=headers)
            status = link.getresponse().status
            assert status in (201, 409), status
            return True
        return False


def _program() -> Path:
    """The program, which is fetched when it is not there. One process fetches it, and others wait."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotThere("npm is not installed, and azurite is fetched with it")
    files = [LOCK / name for name in ("package.json", "package-lock.json")]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidings-tests"
    folder = home / f"azurite-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".ready").exists():
            for file in files:
                shutil.copyfile(file, folder / file.name)
            words = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise NotThere(f"npm cannot fetch azurite: {' '.join(done.stderr.split())[-200:]}")
            (folder / ".ready").touch()
    return folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    try:
        server = Azurite(tmp_path_factory.mktemp("azurite"))
    except NotThere as why:
        pytest.skip(f"no Azure to test with: {why}")
    yield server
    server.stop()


@pytest.fixture
def azure_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
