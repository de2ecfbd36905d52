"""S3 for tests: moto's server on a free loopback port, in an environment of its own, because it pins botocore.

The environment is `.venv-s3` at the root of the tree, made from requirements/s3.txt when it is first needed. Where it
cannot be made the tests that ask for the `s3` fixture are skipped, and say why.
"""

from __future__ import annotations

import fcntl
import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tidings_proof.world.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
VENV = ROOT / ".venv-s3"
LOCK = ROOT / "requirements" / "s3.txt"
READY_S = 60.0
BUCKET = "tidings"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "of-the-tests", "AWS_SECRET_ACCESS_KEY": "of-the-tests"}
GOOGLE_CREDENTIALS = {"GS_ACCESS_KEY_ID": "of-the-tests", "GS_SECRET_ACCESS_KEY": "of-the-tests"}


class NotThere(Exception):
    """Which component is missing, and why."""


class S3Server:
    """The server, with one bucket."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._log = folder / "moto.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [_program(), "-H", "127.0.0.1", "-p", str(self.port)],
                env={**os.environ, **CREDENTIALS},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._until_ready()
        except BaseException:
            self.stop()
            raise

    @property
    def endpoint(self) -> str:
        """Of S3, and of STS too."""
        return f"http://127.0.0.1:{self.port}"

    def url(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}?endpoint={self.endpoint}&region=eu-west-1"

    def google_url(self, prefix: str) -> str:
        """The same store, asked as Google's is."""
        return f"gs://{BUCKET}/{prefix}?endpoint={self.endpoint}"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _until_ready(self) -> None:
        """Until it has made the bucket."""
        deadline_s = time.monotonic() + READY_S
        while not self._is_made():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise NotThere(f"moto's server does not run: {self._log.read_text()[-300:]}")
            time.sleep(0.05)

    def _is_made(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            place = "<LocationConstraint>eu-west-1</LocationConstraint>"
            link.request("PUT", f"/{BUCKET}", f"<CreateBucketConfiguration>{place}</CreateBucketConfiguration>")
            return link.getresponse().status in (200, 409)
        return False


def _program() -> str:
    """moto's server, in the environment that this makes if need be; one process makes it, others wait."""
    program = VENV / "bin" / "moto_server"
    VENV.mkdir(exist_ok=True)
    with (VENV / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = VENV / ".ready"
        if not ready.is_file() or ready.read_text() != LOCK.read_text():
            _run([sys.executable, "-m", "venv", str(VENV)])
            pip = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-qq"]
            _run([*pip, "--require-hashes", "-r", str(LOCK)])
            ready.write_text(LOCK.read_text())
    return str(program)


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotThere(f"{LOCK.name} cannot be installed: {said[-1] if said else done.returncode}")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    try:
        server = S3Server(tmp_path_factory.mktemp("s3"))
    except NotThere as why:
        pytest.skip(f"no S3 to test with: {why}")
    yield server
    server.stop()


@pytest.fixture
def s3_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def google_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's store is asked with its own key, so a node with a key of AWS in its environment uses none of that."""
    for name, value in {**GOOGLE_CREDENTIALS, "AWS_ACCESS_KEY_ID": "other", "AWS_SESSION_TOKEN": "other"}.items():
        monkeypatch.setenv(name, value)
